package keep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/execute"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/launch"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/session"
	"github.com/sbxhost/sbxhost/workspace"
)

// hostKey is everything that a Host depends on. It is compared by its values: two values that print
// alike, such as secrets, can differ.
type hostKey struct {
	setup setup.Setup // without a File
	file  string
	root  string // of a discovered workspace: a path can lead to another one later
}

// key is the key of a Host for a setup with options.
func key(s *setup.Setup, options host.Options) *hostKey {
	return &hostKey{setup.Setup{Config: inforce.Config{Origin: s.Origin, Options: options}, Sandbox: s.Sandbox}, s.File.Path(), ""}
}

// newHost makes the Host of a key. The server would judge PATH, or a bind, by where it leads in the
// server.
func (k *hostKey) newHost(ctx context.Context, o host.Options) (*host.Host, error) {
	text := fmt.Sprintf("%+v", *k)
	for _, def := range o.Sandboxes {
		text += string(def.Config) // of which %v prints numbers
	}
	if paths.ProcessSpecific(text) {
		return nil, errors.New("what a path leads to is the process's own")
	}
	return host.New(ctx, o)
}

func (k *hostKey) equal(other *hostKey) bool { return reflect.DeepEqual(k, other) }

// sharedSetup is a setup for many commands, without their individual parts.
func sharedSetup(s *setup.Setup) *setup.Setup {
	shared := *s
	o := &shared.Options
	o.OneShot, o.Session.OneShot, o.Approver, o.Logger = false, false, nil, nil
	o.Sandboxes = maps.Clone(o.Sandboxes)
	def := o.Sandboxes[s.Sandbox]
	def.Limits.Timeout = 0
	o.Sandboxes[s.Sandbox] = def
	return &shared
}

// servedSetup is a setup for commands of callers that are independent of one another, unless they
// name a session, and that are anywhere in one workspace. found is its root if no configuration names that.
func servedSetup(a *cli.App, s *setup.Setup) (shared *setup.Setup, found string, err error) {
	s = sharedSetup(s)
	o := &s.Options
	o.Session.Each = o.Session.Name == ""
	config, root := a.Getenv("SBXHOST_CONFIG"), o.Workspace.Root
	switch {
	case config != "" && !filepath.IsAbs(config): // it depends on this directory
	case root == "":
		if found, err = workspace.Discover(o.Dir, a.Getenv("HOME")); err != nil {
			return nil, "", fmt.Errorf("workspace.root: %w", err)
		}
		o.Dir, _ = workspace.SpellingOf(o.Dir, found) // a directory with the same root
	case filepath.IsAbs(root), root == "~", strings.HasPrefix(root, "~/"):
		o.Dir = "/"
	}
	return s, found, nil
}

// servedKey leaves out the environment: a Host itself reports which variables it has read.
func servedKey(s *setup.Setup, root string) *hostKey {
	o := s.Options
	o.Environ = nil
	k := key(s, o)
	k.root = root
	return k
}

// hostCache has the hosts of the latest commands.
type hostCache struct {
	mu  sync.Mutex
	all []*cachedHost // the last one was requested last
}

// cachedHost is a Host that its first user makes.
type cachedHost struct {
	key     *hostKey
	session string // identifies its session; empty if each command has its own
	users   int    // the next two are set while there are some
	making  sync.Once
	host    *host.Host
	err     error
}

// maxHosts is how many hosts without a command, each with an engine, to keep: 30 MiB each.
const maxHosts = 16

var errKept = errors.New("it is in a kept session, which sbxhost exec asks for by itself")

// take returns a Host for a setup and its caller's environment. The caller must give it back.
func (k *hostCache) take(ctx context.Context, a *cli.App, s *setup.Setup) (*execute.UsedHost, error) {
	s, root, err := servedSetup(a, s)
	if err != nil {
		return nil, err
	}
	def := s.Options.Sandboxes[s.Sandbox]
	if def.Session.Processes {
		return nil, errKept
	}
	engine := def.Engine
	if launch.IsAuto(engine) {
		engine = "docker" // of the declared engines, "auto" takes this one alone
	}
	if _, declared := s.Options.Engines[engine]; declared {
		return nil, fmt.Errorf("engine %q is declared, and may not take over the limits of its command's caller", engine)
	}
	key, in := servedKey(s, root), ""
	if name := s.Options.Session.Name; name != "" {
		if in, err = session.KeeperDir(a.LookupEnv, name, nil); err != nil {
			return nil, err
		}
	}
	tried := map[*cachedHost]bool{}
	for {
		h, mine := k.use(key, in, tried), false
		h.making.Do(func() {
			mine = true
			h.host, h.err = key.newHost(ctx, s.Options)
		})
		if h.err == nil && (mine || h.host.OtherCaller(a.Environ) == "" && !h.host.Workspace().Moved()) {
			return &execute.UsedHost{Host: h.host, Done: func() { k.giveBack(h) }}, nil
		}
		err := h.err
		k.giveBack(h)
		if mine {
			return nil, err
		}
		tried[h] = true // it is for another environment or directory, or an error has prevented its own
	}
}

// use takes a Host that has the key and was not tried, or a new one.
func (k *hostCache) use(key *hostKey, in string, tried map[*cachedHost]bool) *cachedHost {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := &cachedHost{key: key, session: in}
	if i := slices.IndexFunc(k.all, func(h *cachedHost) bool { return !tried[h] && h.session == in && h.key.equal(key) }); i >= 0 {
		h = k.all[i]
		k.all = slices.Delete(k.all, i, i+1)
	}
	k.all = append(k.all, h)
	h.users++
	return h
}

// giveBack ends the use of a Host, and closes the Hosts that have been unused longest.
func (k *hostCache) giveBack(h *cachedHost) {
	k.mu.Lock()
	h.users--
	more := len(k.all) - maxHosts
	k.mu.Unlock()
	k.closeUnused(func(h *cachedHost) bool {
		old := more > 0 || h.err != nil
		if old {
			more--
		}
		return old
	})
}

// closeUnused closes the unused ones of some Hosts.
func (k *hostCache) closeUnused(of func(*cachedHost) bool) {
	k.mu.Lock()
	var old []*host.Host
	k.all = slices.DeleteFunc(k.all, func(h *cachedHost) bool {
		if h.users > 0 || !of(h) {
			return false
		}
		if h.err == nil {
			old = append(old, h.host)
		}
		return true
	})
	k.mu.Unlock()
	for _, h := range old {
		h.Close()
	}
}

// namedIdle is how long to keep Hosts of a named session without a command.
const namedIdle = time.Minute

// idle is how long to keep the Hosts of a session; others are not kept.
func (k *hostCache) idle(in string) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.ContainsFunc(k.all, func(h *cachedHost) bool { return h.session == in }) {
		return namedIdle
	}
	return 0
}

func (k *hostCache) close() error {
	var errs []error
	for _, h := range k.all {
		errs = append(errs, h.host.Close())
	}
	return errors.Join(errs...)
}

// list returns a row for each, for people.
func (k *hostCache) list() (rows [][]string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.all {
		o := &h.key.setup.Options
		rows = append(rows, []string{cli.Quote(filepath.Join(o.Dir, o.Workspace.Root)), h.key.setup.Sandbox, cmp.Or(h.key.file, "built in"), strconv.Itoa(h.users)})
	}
	return rows
}
