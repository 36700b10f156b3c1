package keep

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/execute"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/host"
)

// hostKey is all that a Host depends on. It is compared by its values: two that print alike, such as
// secrets, are not equal.
type hostKey struct {
	setup setup.Setup // without a File
	file  string
	store string // where approvals are; each setup has a store of its own
}

// key is that of a Host that is made for a setup with options.
func key(s *setup.Setup, options host.Options) (*hostKey, error) {
	k := &hostKey{setup.Setup{Origin: s.Origin, Options: options, Sandbox: s.Sandbox}, s.File.Path(), ""}
	if store := options.Approvals.Store; store != nil {
		k.store, k.setup.Options.Approvals.Store = store.Dir(), nil
	}
	if ofProcess(reflect.ValueOf(k).Elem()) {
		// PATH, or a bind, would be judged by where it leads in the server.
		return nil, errors.New("what a path leads to is the process's own")
	}
	return k, nil
}

// ofProcess reports whether a text in v names a path that is another one in each process.
func ofProcess(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return execute.OfProcess(v.String())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return execute.OfProcess(string(v.Bytes()))
		}
		for i := range v.Len() {
			if ofProcess(v.Index(i)) {
				return true
			}
		}
	case reflect.Map:
		for entry := v.MapRange(); entry.Next(); {
			if ofProcess(entry.Key()) || ofProcess(entry.Value()) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if ofProcess(v.Field(i)) {
				return true
			}
		}
	}
	return false // engines, and what is for them, have none of the caller's
}

func (k *hostKey) equal(other *hostKey) bool { return reflect.DeepEqual(k, other) }

// optionsOf are those of a Host that is kept for a setup.
func optionsOf(s *setup.Setup) host.Options {
	o := s.Options
	// What holds places would be seen by the client's next program.
	o.OneShot, o.Session.Never, o.Linger, o.Approver = false, true, -1, nil
	return o
}

// keptHosts are the hosts that commands have used last.
type keptHosts struct {
	mu   sync.Mutex
	list []*keptHost // the one that was asked for last is the last
}

// keptHost is a Host that somebody makes, or has made.
type keptHost struct {
	key   *hostKey
	made  chan struct{} // closed when host and err are there
	host  *host.Host
	err   error
	users int
}

// maxHosts bounds how many hosts, each with its engines, are kept without a command.
const maxHosts = 4

// take gives the Host of a setup, until it is given back.
func (k *keptHosts) take(ctx context.Context, _ *cli.App, s *setup.Setup) (*execute.UsedHost, error) {
	o := optionsOf(s)
	key, err := key(s, o)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	h := &keptHost{key: key, made: make(chan struct{})}
	i := slices.IndexFunc(k.list, func(h *keptHost) bool { return h.key.equal(key) })
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
