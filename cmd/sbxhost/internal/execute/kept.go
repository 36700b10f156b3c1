package execute

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/terminal"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/serve"
	"github.com/sbxhost/sbxhost/internal/session"
)

// FullDelay is the time between two tries if something is in the way for a moment.
const FullDelay = 50 * time.Millisecond

// SessionName returns the name of the command's session, or empty if it has no name.
func (e *Execution) SessionName() string { return setup.SessionOptions(e.App, &e.flags).Name }

// needsServer reports whether the command runs in a session that a server holds, and refuses
// options that such a session cannot have.
func (e *Execution) needsServer(fs *flag.FlagSet) (bool, error) {
	f := &e.flags
	name := e.SessionName()
	var refusal string
	switch {
	case !f.Keep && name == "":
		return false, nil
	case name == "":
		refusal = "-keep needs a session: name it with -session"
	case !f.Keep && !e.keepsByDefinition():
		return false, nil
	case f.NoSandbox:
		refusal = "-no-sandbox: what is kept runs in a sandbox"
	case e.trace:
		refusal = "-trace: what is kept is not traced; run the command without -session"
	case f.ByFile && f.ScriptFile == "", paths.ProcessSpecific(e.resultPath + " " + f.Workdir + " " + f.Config):
		refusal = "a path of this process, such as /dev/stdin, is another one for the server that holds the session"
	default:
		return true, nil
	}
	return false, cli.Usage(fs, errors.New(refusal))
}

// keepsByDefinition reports whether the definition keeps the session. Errors of the configuration
// are reported where the command runs.
func (e *Execution) keepsByDefinition() bool {
	quiet := *e.App
	quiet.Stderr = io.Discard
	s, err := setup.Load(context.Background(), &quiet, e.flags.Config)
	if err != nil {
		return false
	}
	name, err := s.File.Choose(e.flags.Sandbox)
	return err == nil && s.Options.Sandboxes[name].Session.Processes
}

// serverTries is how often to ask or start a server: another one may be about to end or to begin.
const serverTries = 5

// ownIdle is how long a server for sessions alone stays without a session.
const ownIdle = "2s"

// runInServer makes a server run the command: the one that holds the session; or else the server of
// this user; or, if that cannot exist or does not serve this process, one beside the sessions'
// directories.
func (e *Execution) runInServer() error {
	name := e.SessionName()
	dir, err := session.KeeperDir(e.LookupEnv, name, e.WritableDirs(host.Options{}, e.Getenv("XDG_CACHE_HOME")))
	if err != nil {
		return err
	}
	self, err := hostpath.Self()
	if err != nil {
		return err
	}
	held, second := false, filepath.Join(filepath.Dir(dir), ".serve")
	for range serverTries {
		h, failed := serve.HolderOf(dir)
		held = failed == nil
		sockets := []string{filepath.Join(second, serve.Socket)}
		if held {
			sockets = []string{h.Socket}
			h.Close()
		} else if runtime, failed := serve.Dir(e.Getenv("XDG_RUNTIME_DIR")); failed == nil && e.Getenv("SBX_SERVE") != "off" {
			sockets = slices.Insert(sockets, 0, filepath.Join(runtime, serve.Socket))
		}
		for i, socket := range sockets {
			status, ended, failed := e.ask(socket, self.Path())
			if errors.Is(failed, serve.ErrAbsent) && !held {
				if dir := filepath.Dir(socket); i == len(sockets)-1 {
					failed = serve.Start(self, nil, "-dir", dir, "-idle", ownIdle) // for sessions alone
				} else {
					failed = serve.StartUser(self, dir)
				}
				if failed == nil {
					status, ended, failed = e.ask(socket, self.Path())
				}
			}
			err = failed
			switch {
			case err == nil:
				e.signalJob(ended)
				return cli.Exit(status)
			case errors.Is(err, serve.ErrGone):
				return fmt.Errorf("the server that held session %q has ended, and all that ran there with it", name)
			}
		}
		if errors.Is(err, serve.ErrAbsent) || errors.Is(err, serve.ErrDeclined) && !held {
			time.Sleep(FullDelay) // one is about to end, or has just begun the session
			continue
		}
		break
	}
	err = fmt.Errorf("session %q: %w", name, err)
	switch {
	case held:
		err = cli.Hint(err, "sbxhost sessions rm "+name+" ends it")
	case errors.Is(err, serve.ErrDeclined):
		err = cli.Hint(err, "sbxhost serve -stop -dir "+cli.Quote(second)+" ends the server that refused it, and the sessions that this one holds")
	}
	return err
}

// askInterval is how often to ask a server whether it still needs a session.
const askInterval = time.Second

// waiter lets the command wait for its session or review, and says so once. Meanwhile it asks for the
// session.
func (e *Execution) waiter(sandbox string) session.Waiter {
	reported, asked := e.quiet, time.Time{}
	return func(held *session.InUseError, late bool) error {
		if late && !reported {
			reported = true
			if e.Remote != nil {
				e.Remote.Stderr.start()
			}
			until := ""
			if e.SessionName() == "" { // it waits for a review
				until = "; a kept session uses it until its end (sbxhost sessions list)"
			}
			e.Say(fmt.Sprintf("waiting for %s, in use by %s%s", held.What, held.Holder(), until))
		}
		if e.SessionName() == "" || e.Remote == nil && time.Since(asked) < askInterval {
			return nil
		}
		asked = time.Now()
		return e.makeWay(sandbox)
	}
}

// A HeldSession is a server's answer about a session that it has.
type HeldSession struct {
	Commands  int    // running ones
	Kept      string // the sandbox of the processes that it has, or had
	Processes []host.ProcessInfo
}

// HeldBy asks the process that has the session of a keeper's directory what runs there. The limit is as in serve.Query.
func HeldBy(dir string, limit time.Duration) (pid int, holds HeldSession, err error) {
	h, err := serve.HolderOf(dir)
	if err != nil {
		return 0, holds, err
	}
	defer h.Close()
	text, err := h.Session(limit)
	if err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &holds)
	}
	if err != nil {
		err = fmt.Errorf("process %d: %w", h.PID, err)
	}
	return h.PID, holds, err
}

// makeWay makes the server that holds the session give it up, if nothing runs in it. The error says
// that the session is kept, which can last.
func (e *Execution) makeWay(sandbox string) error {
	if e.Remote != nil {
		return e.keptError(e.Remote.MakeWay(), sandbox)
	}
	if dir, err := session.KeeperDir(e.LookupEnv, e.SessionName(), nil); err == nil {
		if _, holds, err := HeldBy(dir, serve.Patience); err == nil {
			return e.keptError(holds.Kept, sandbox)
		}
	}
	return nil
}

// keptError refuses a command without -keep for a sandbox, if the session is kept, with the sandbox
// kept.
func (e *Execution) keptError(kept, sandbox string) error {
	name := e.SessionName()
	switch {
	case kept == "":
		return nil
	case kept != sandbox:
		return cli.Hint(fmt.Errorf("session %q runs sandbox %q", name, kept), "add -sandbox "+kept)
	}
	return cli.Hint(fmt.Errorf("session %q is kept, and takes only commands with -keep", name), "-keep runs the command among its processes; sbxhost sessions rm "+name+" ends it")
}

// runServed makes the server of this user run the command, in whose session other commands also
// find its leftovers. It does not if there can be no server, or if the command must run from this
// process.
func (e *Execution) runServed() (served bool, err error) {
	if e.Getenv("SBX_SERVE") == "off" || e.OwnProcess() != "" {
		return false, nil
	}
	if _, err := session.KeeperDir(e.LookupEnv, e.SessionName(), nil); err != nil {
		return false, nil // the process that runs it reports that
	}
	self, err := hostpath.Self()
	if err != nil {
		return false, nil
	}
	client := serve.Client{Hello: serve.Hello{Args: e.CommandLine}}
	status, ended, err := client.AskUser(e.Getenv("XDG_RUNTIME_DIR"), self)
	switch {
	case err == nil:
		e.signalJob(ended)
		return true, cli.Exit(status)
	case errors.Is(err, serve.ErrGone):
		return true, err
	}
	return false, nil
}

// ask makes a server run the command. A terminal stays with this process, which alone knows whether
// it is in the foreground: the server gets the typed bytes.
func (e *Execution) ask(path, program string) (status int, ended syscall.Signal, err error) {
	e.cmd = &host.Cmd{TTY: true} // the server's command has a terminal if this process has one
	r := e.newRelay(nil)
	defer e.terminal.Restore()
	client := serve.Client{Hello: serve.Hello{Args: e.CommandLine, Keep: true, Shell: e.shell, Typed: e.terminal != nil}, Suspend: terminal.SuspendJob}
	var typed *os.File // where typed bytes go
	if e.terminal != nil {
		var read *os.File
		if read, typed, err = os.Pipe(); err != nil {
			return 0, 0, err
		}
		defer read.Close()
		defer typed.Close()
		client.Stdin = int(read.Fd())
	}
	client.Relay = func(signals chan os.Signal, send func(syscall.Signal), begun, ended <-chan struct{}) {
		// The server knows how long a command may take to begin and to end.
		r.Grace, r.Patience, r.Started, r.Finished = math.MaxInt64, 0, begun, ended
		r.Forward, r.Cancel = send, send
		r.Resize, r.Redraw = func() { send(syscall.SIGWINCH) }, func() {}
		if e.terminal != nil {
			go io.Copy(typed, &terminal.EOFReader{From: e.terminal, Ended: func() { terminal.HangUp(signals) }})
		}
		r.Run(signals)
	}
	return client.Ask(path, program)
}

// OwnProcess says why only the client itself can run a command, or "" if a server can: the command
// needs a terminal, or shares what a server would keep from others, or writes where only the client
// can, or runs without a sandbox, as a child of the client.
func (e *Execution) OwnProcess() string {
	f := &e.flags
	for why, own := range map[string]bool{
		"it has a terminal":                            f.Tty || cli.IsTerminal(e.Stdin),
		"-no-sandbox runs it as a child of its caller": f.NoSandbox,
		"it uses a review":                             f.Review != "",
		"its script is a file or a pipe":               f.ByFile,
		"a path is this process's own":                 paths.ProcessSpecific(f.Workdir + " " + f.Config + " " + e.resultPath + " " + e.eventsTo),
		"SBXHOST_LOG is set":                           e.Getenv("SBXHOST_LOG") != "",
	} {
		if own {
			return why
		}
	}
	return ""
}
