//go:build unix

package keep

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/execute"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/host"
)

// keeper holds the processes of a session, by a Host.
type keeper struct {
	name string
	log  *keptLog

	mu    sync.Mutex
	over  bool
	setup *setup.Setup
	key   hostKey
	host  *host.Host // nil before the first command
	users int
}

// newKeeper gives the keeper of a session and its directory.
func newKeeper(a *cli.App, name string) (*keeper, string, error) {
	dir, err := host.KeeperDir(a.Environ, name, true)
	if err != nil {
		return nil, "", err
	}
	return &keeper{name: name, log: &keptLog{path: filepath.Join(dir, keptLogName)}}, dir, nil
}

// take gives the Host, for commands of the setup that it was made with.
func (k *keeper) take(ctx context.Context, a *cli.App, s *setup.Setup) (*execute.UsedHost, error) {
	def := s.Options.Sandboxes[s.Sandbox]
	def.Limits.Timeout = 0 // each command has its own
	kept := *s
	kept.Options.Sandboxes = maps.Clone(s.Options.Sandboxes)
	kept.Options.Sandboxes[s.Sandbox] = def
	s = &kept
	key, err := key(s, &cli.App{})
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return nil, host.ErrClosed
	}
	if !def.Session.Processes {
		return nil, fmt.Errorf("sandbox %q keeps no processes: give -keep, or write session { processes = true }", s.Sandbox)
	}
	if k.host != nil && k.key != key && k.users == 0 && !k.host.HasProcesses() {
		k.host.Close()
		k.host = nil
	}
	if k.host == nil {
		o := s.Options
		o.OneShot, o.Session.Once, o.Approver, o.Logger = false, false, nil, nil
		if k.host, err = host.New(ctx, o); err != nil {
			return nil, err
		}
		k.setup, k.key = s, key
	} else if err := k.same(s, key); err != nil {
		return nil, err
	}
	k.users++
	return &execute.UsedHost{Host: k.host, Done: func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.users--
	}}, nil
}

// same refuses, by name, what would not hold for what runs already.
func (k *keeper) same(s *setup.Setup, key hostKey) error {
	refuse := func(format string, args ...any) error {
		return cli.Hint(fmt.Errorf("session %q %s", k.name, fmt.Sprintf(format, args...)), "sbxhost sessions rm "+k.name+" ends it; or use another session")
	}
	if s.Sandbox != k.setup.Sandbox {
		return refuse("runs sandbox %q, and this command asks for %q", k.setup.Sandbox, s.Sandbox)
	}
	was, is := k.setup.Options.Sandboxes[k.setup.Sandbox], s.Options.Sandboxes[s.Sandbox]
	switch attribute := was.Differs(&is); {
	case attribute != "":
		return refuse("was begun with another %s than this command asks for", attribute)
	case key != k.key:
		return refuse("was begun with another configuration than %s is now", setup.NameOf(s.File))
	}
	return nil
}

// idle is how long the keeper stays without a command: no time where nothing was begun that it
// could hold. Of nil it is another.
func (k *keeper) idle(other time.Duration) time.Duration {
	if k == nil {
		return other
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.host == nil || !k.host.HasProcesses() {
		return 0
	}
	return cmp.Or(k.setup.Options.Sandboxes[k.setup.Sandbox].Session.Idle, host.DefaultIdle)
}

// end ends all that runs. Nil has nothing.
func (k *keeper) end() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over = true
	if k.host != nil {
		k.host.Close()
	}
}

// adapt makes of a command what its client means: its directory, and its variables.
func (k *keeper) adapt(a *cli.App, h *host.Host, cmd *host.Cmd) error {
	if root := h.Workspace().Root(); cmd.Dir == "" {
		if a.Dir != root && !strings.HasPrefix(a.Dir, strings.TrimSuffix(root, "/")+"/") {
			return fmt.Errorf("session %q works on %s, in which this directory does not lie", k.name, cli.Quote(root))
		}
		cmd.Dir = a.Dir
	}
	asked := cmd.Env
	cmd.Env = make([]string, 0, len(asked))
	for _, v := range asked {
		if !strings.Contains(v, "=") {
			value, ok := a.LookupEnv(v)
			if !ok {
				continue // it would be that of the session's first client
			}
			v += "=" + value
		}
		cmd.Env = append(cmd.Env, v)
	}
	cmd.Background = k.log.of(cmd.String())
	return nil
}

// maxKeptLog bounds each of the two files.
const maxKeptLog = 4 << 20

// keptLog is what processes have written that their commands have left behind.
type keptLog struct {
	path string

	mu   sync.Mutex
	file *os.File
	size int64
	last *loggedCommand
}

// loggedCommand writes what was left of one command.
type loggedCommand struct {
	log  *keptLog
	name string
}

func (l *keptLog) of(name string) io.Writer { return &loggedCommand{l, name} }

func (c *loggedCommand) Write(p []byte) (int, error) {
	l := c.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.open(); err != nil {
		return len(p), nil // it is not the command's to know
	}
	text := p
	if l.last != c {
		text = slices.Concat(fmt.Appendf(nil, "==> %s <==\n", c.name), p)
		l.last = c
	}
	n, _ := l.file.Write(text)
	l.size += int64(n)
	return len(p), nil
}

// open has a file to write to that is not full. l.mu is held.
func (l *keptLog) open() (err error) {
	if l.file != nil && l.size < maxKeptLog {
		return nil
	}
	if l.file != nil {
		l.file.Close()
		l.file, l.last = nil, nil
		os.Rename(l.path, filepath.Join(filepath.Dir(l.path), keptLogOld))
	}
	l.size = 0
	l.file, err = os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	return err
}
