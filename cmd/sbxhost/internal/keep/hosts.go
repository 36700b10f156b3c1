//go:build unix

package keep

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
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
	list []*keptHost // the one that was asked for last is the last
}

// keptHost is a Host that somebody makes, or has made.
type keptHost struct {
	key   hostKey
	made  chan struct{} // closed when host and err are there
	host  *host.Host
	err   error
	users int
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
	h := &keptHost{key: key, made: make(chan struct{})}
	i := slices.IndexFunc(k.list, func(h *keptHost) bool { return h.key == key })
	ours := i < 0
	if !ours {
		h = k.list[i]
		k.list = slices.Delete(k.list, i, i+1)
	}
	k.list = append(k.list, h)
	h.users++
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
	var old []*host.Host
	more := len(k.list) - maxHosts
	k.list = slices.DeleteFunc(k.list, func(h *keptHost) bool {
		if h.users > 0 || more <= 0 && !h.failed() {
			return false
		}
		if more--; !h.failed() {
			old = append(old, h.host)
		}
		return true
	})
	k.mu.Unlock()
	for _, h := range old {
		h.Close()
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
