//go:build unix

package keep

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"sync"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/execute"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/host"
)

// hostKey is of all that a Host depends on.
type hostKey [sha256.Size]byte

func key(s *setup.Setup, a *cli.App) (hostKey, error) {
	o := &s.Options
	text, err := json.Marshal([]any{a.Dir, a.Environ, s.Sandbox, s.File.Path(), s.Origin, o.Sandboxes, o.Workspace, o.Session, o.Engines, o.Approvals.Mode, o.Approvals.SessionTTL, o.Audit, o.Protected, o.Sensitive})
	if err == nil && execute.OfProcess(string(text)) {
		// PATH, or a bind, would be judged by where it leads in the server.
		err = errors.New("what a path leads to is the process's own")
	}
	return sha256.Sum256(text), err
}

// keptHosts are the hosts that commands have used last.
type keptHosts struct {
	mu   sync.Mutex
	list map[hostKey]*keptHost
	uses uint64
}

// keptHost is a Host that somebody makes, or has made.
type keptHost struct {
	made    chan struct{} // closed when host and err are there
	host    *host.Host
	err     error
	users   int
	lastUse uint64
}

// maxHosts bounds how many hosts, each with its engines, are kept without a command.
const maxHosts = 4

// take gives the Host of a setup, until it is given back.
func (k *keptHosts) take(ctx context.Context, a *cli.App, s *setup.Setup) (*execute.UsedHost, error) {
	key, err := key(s, a)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	h := k.list[key]
	ours := h == nil
	if ours {
		h = &keptHost{made: make(chan struct{})}
		k.list[key] = h
	}
	k.uses++
	h.users, h.lastUse = h.users+1, k.uses
	k.mu.Unlock()
	used := &execute.UsedHost{Done: func() { k.giveBack(h) }}
	if ours {
		o := s.Options
		// What holds places would be seen by the client's next program.
		o.OneShot, o.Session.Never, o.Linger, o.Approver = false, true, -1, nil
		h.host, h.err = host.New(ctx, o)
		close(h.made)
	}
	select {
	case <-h.made:
		err = h.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		used.Done()
		return nil, err
	}
	used.Host = h.host
	return used, nil
}

// giveBack ends the use of a Host, and closes those that were not used for longest.
func (k *keptHosts) giveBack(h *keptHost) {
	k.mu.Lock()
	h.users--
	var old []*keptHost
	for key, other := range k.list {
		if other.users == 0 && other.failed() {
			delete(k.list, key)
		}
	}
	for len(k.list) > maxHosts {
		var oldest hostKey
		found := false
		for key, other := range k.list {
			if other.users == 0 && (!found || other.lastUse < k.list[oldest].lastUse) {
				oldest, found = key, true
			}
		}
		if !found {
			break
		}
		old = append(old, k.list[oldest])
		delete(k.list, oldest)
	}
	k.mu.Unlock()
	for _, h := range old {
		h.host.Close()
	}
}

// failed reports whether there is no Host, and never will be.
func (h *keptHost) failed() bool {
	select {
	case <-h.made:
		return h.err != nil
	default:
		return false
	}
}

func (k *keptHosts) close() error {
	var errs []error
	for _, h := range k.list {
		errs = append(errs, h.host.Close())
	}
	return errors.Join(errs...)
}
