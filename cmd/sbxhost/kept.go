//go:build unix

package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"sync"

	"github.com/sbxhost/sbxhost/host"
)

// hostKey is of all that a Host depends on.
type hostKey [sha256.Size]byte

func (s *setup) key(a *app) (hostKey, error) {
	o := &s.options
	text, err := json.Marshal([]any{a.dir, a.environ, s.sandbox, s.file.Path(), s.origin, o.Sandboxes, o.Workspace, o.Session, o.Engines, o.Approvals.Mode, o.Approvals.SessionTTL, o.Audit, o.Protected, o.Sensitive})
	return sha256.Sum256(text), err
}

// keptHosts are the hosts that commands have used last.
type keptHosts struct {
	mu   sync.Mutex
	list map[hostKey]*keptHost
	uses uint64
}

type keptHost struct {
	host    *host.Host
	users   int
	lastUse uint64
}

// maxHosts bounds how many hosts, each with its engines, are kept without a command.
const maxHosts = 4

// take gives the Host of a setup, until it is given back.
func (k *keptHosts) take(ctx context.Context, a *app, s *setup) (*usedHost, error) {
	key, err := s.key(a)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.list[key]
	if h == nil {
		o := s.options
		// What holds places would be seen by the client's next program.
		o.OneShot, o.Session.Never, o.Linger, o.Approver = false, true, -1, nil
		made, err := host.New(ctx, o)
		if err != nil {
			return nil, err
		}
		h = &keptHost{host: made}
		k.list[key] = h
	}
	k.uses++
	h.users, h.lastUse = h.users+1, k.uses
	return &usedHost{h.host, func() { k.giveBack(h) }}, nil
}

// giveBack ends the use of a Host, and closes those that were not used for longest.
func (k *keptHosts) giveBack(h *keptHost) {
	k.mu.Lock()
	h.users--
	var old []*keptHost
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

func (k *keptHosts) close() error {
	var errs []error
	for _, h := range k.list {
		errs = append(errs, h.host.Close())
	}
	return errors.Join(errs...)
}
