//go:build unix

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/serve"
)

// fullDelay is how often is tried again what is in somebody's way for a moment.
const fullDelay = 50 * time.Millisecond

var errServed = errors.New("another sbxhost serve runs")

// kept reports whether the command runs in a session that a keeper holds, and refuses what cannot
// be had there.
func (e *execution) kept(fs *flag.FlagSet) (bool, error) {
	f := &e.flags
	name := e.sessionOptions(f).Name
	switch {
	case !f.keep && name == "":
		return false, nil
	case name == "":
		return false, usage(fs, errors.New("-keep needs a session: name it with -session"))
	case !f.keep && !e.keepsByDefinition():
		return false, nil
	case f.noSandbox:
		return false, usage(fs, errors.New("-no-sandbox: what is kept runs in a sandbox"))
	case f.tty:
		return false, usage(fs, errors.New("-t: a kept session has no terminals"))
	case e.trace:
		return false, usage(fs, errors.New("-trace: what is kept is not traced; run the command without -session"))
	case f.byFile && f.scriptFile == "", ofProcess(e.resultPath + " " + f.workdir + " " + f.config):
		return false, usage(fs, errors.New("a path of this process, such as /dev/stdin, is another one for the session's keeper"))
	}
	return true, nil
}

// keepsByDefinition reports whether the definition says it. What is wrong with the configuration is
// told by who runs the command.
func (e *execution) keepsByDefinition() bool {
	quiet := *e.app
	quiet.stderr = io.Discard
	s, err := quiet.load(context.Background(), e.flags.config)
	if err != nil {
		return false
	}
	name, err := s.file.Choose(e.flags.sandbox)
	return err == nil && s.options.Sandboxes[name].Session.Processes
}

// keeperTries is how often a keeper is asked or started: another may be about to end, or to begin.
const keeperTries = 5

// runKept has the session's keeper run the command.
func (e *execution) runKept() error {
	name := e.sessionOptions(&e.flags).Name
	dir, err := host.KeeperDir(e.environ, name, true)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	path := filepath.Join(dir, serve.Socket)
	for range keeperTries {
		var status int
		status, err = serve.Ask(path, program, e.fullWords())
		switch {
		case err == nil:
			return exit(status)
		case errors.Is(err, serve.ErrAbsent):
			if said, failed := e.startKeeper(program, name); failed != nil {
				return failed
			} else if said != "" {
				err = errors.New(said)
			}
			continue
		case errors.Is(err, serve.ErrLeft): // it is about to end
			time.Sleep(fullDelay)
			continue
		case errors.Is(err, serve.ErrGone):
			return fmt.Errorf("the keeper of session %q has ended, and all that ran there with it", name)
		}
		break
	}
	return &hinted{fmt.Errorf("session %q: %w", name, err), "sbxhost sessions rm " + name + " ends it"}
}

// fullWords are the words of the command line, with the path of a script as it is for a process in
// another directory.
func (e *execution) fullWords() []string {
	words := slices.Clone(e.words)
	if !e.flags.byFile {
		return words
	}
	for i, w := range words[:len(words)-len(e.args)] {
		if flag, name, ok := strings.Cut(w, "@"); ok && (flag == "-c=" || flag == "--c=" || flag == "" && i > 0 && strings.TrimLeft(words[i-1], "-") == "c") {
			words[i] = flag + "@" + e.absolute(name)
		}
	}
	return words
}

// startKeeper starts a keeper, and waits until it serves or says why it does not.
func (a *app) startKeeper(program, name string) (said string, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer read.Close()
	// It belongs to no terminal, and outlives this process.
	keeper := exec.Command(program, "serve", "-session", name)
	keeper.Dir, keeper.Env, keeper.Stderr = "/", a.environ, write
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = keeper.Start()
	write.Close()
	if err != nil {
		return "", err
	}
	defer keeper.Process.Release()
	line, _ := bufio.NewReader(read).ReadString('\n')
	line = strings.TrimPrefix(strings.TrimSpace(line), "sbxhost: ")
	if strings.HasPrefix(line, "serving ") || strings.Contains(line, errServed.Error()) {
		return "", nil
	}
	return cmp.Or(line, "its keeper ended before it served"), nil
}

// keeper holds the processes of a session, by a Host.
type keeper struct {
	name string
	log  *keptLog

	mu    sync.Mutex
	over  bool
	setup *setup
	key   hostKey
	host  *host.Host // nil before the first command
	users int
}

// newKeeper gives the keeper of a session and its directory.
func (a *app) newKeeper(name string) (*keeper, string, error) {
	dir, err := host.KeeperDir(a.environ, name, true)
	if err != nil {
		return nil, "", err
	}
	return &keeper{name: name, log: &keptLog{path: filepath.Join(dir, keptLogName)}}, dir, nil
}

// take gives the Host, for commands of the setup that it was made with.
func (k *keeper) take(ctx context.Context, a *app, s *setup) (*usedHost, error) {
	def := s.options.Sandboxes[s.sandbox]
	def.Limits.Timeout = 0 // each command has its own
	kept := *s
	kept.options.Sandboxes = maps.Clone(s.options.Sandboxes)
	kept.options.Sandboxes[s.sandbox] = def
	s = &kept
	key, err := s.key(&app{})
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return nil, host.ErrClosed
	}
	if !def.Session.Processes {
		return nil, fmt.Errorf("sandbox %q keeps no processes: give -keep, or write session { processes = true }", s.sandbox)
	}
	if k.host != nil && k.key != key && k.users == 0 && !k.host.HasProcesses() {
		k.host.Close()
		k.host = nil
	}
	if k.host == nil {
		o := s.options
		o.OneShot, o.Session.Once, o.Approver, o.Logger = false, false, nil, nil
		if k.host, err = host.New(ctx, o); err != nil {
			return nil, err
		}
		k.setup, k.key = s, key
	} else if err := k.same(s, key); err != nil {
		return nil, err
	}
	k.users++
	return &usedHost{k.host, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.users--
	}}, nil
}

// same refuses, by name, what would not hold for what runs already.
func (k *keeper) same(s *setup, key hostKey) error {
	refuse := func(format string, args ...any) error {
		return &hinted{fmt.Errorf("session %q %s", k.name, fmt.Sprintf(format, args...)), "sbxhost sessions rm " + k.name + " ends it; or use another session"}
	}
	if s.sandbox != k.setup.sandbox {
		return refuse("runs sandbox %q, and this command asks for %q", k.setup.sandbox, s.sandbox)
	}
	was, is := k.setup.options.Sandboxes[k.setup.sandbox], s.options.Sandboxes[s.sandbox]
	switch attribute := was.Differs(&is); {
	case attribute != "":
		return refuse("was begun with another %s than this command asks for", attribute)
	case key != k.key:
		return refuse("was begun with another configuration than %s is now", nameOf(s.file))
	}
	return nil
}

// idle is how long the keeper stays without a command. Of nil it is another.
func (k *keeper) idle(other time.Duration) time.Duration {
	if k == nil {
		return other
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.setup == nil {
		return other
	}
	return cmp.Or(k.setup.options.Sandboxes[k.setup.sandbox].Session.Idle, host.DefaultIdle)
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
func (k *keeper) adapt(a *app, h *host.Host, cmd *host.Cmd) error {
	if root := h.Workspace().Root(); cmd.Dir == "" {
		if a.dir != root && !strings.HasPrefix(a.dir, strings.TrimSuffix(root, "/")+"/") {
			return fmt.Errorf("session %q works on %s, in which this directory does not lie", k.name, quote(root))
		}
		cmd.Dir = a.dir
	}
	cmd.Env = slices.Clone(cmd.Env)
	for i, v := range cmd.Env {
		if value, ok := a.lookupEnv(v); ok && !strings.Contains(v, "=") {
			cmd.Env[i] = v + "=" + value
		}
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
