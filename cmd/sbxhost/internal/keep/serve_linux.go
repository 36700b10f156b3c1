package keep

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/execute"
	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/serve"
)

const (
	defaultIdle = 10 * time.Minute
	// helloTime is how long a client may take after its connection to say what it wants.
	helloTime = 5 * time.Second
)

// Serve keeps hosts for the commands of sbx, and the processes of sessions.
func Serve(a *cli.App, fs *flag.FlagSet) func() error {
	idle, dir := fs.Duration("idle", defaultIdle, ""), fs.String("dir", "", "")
	status, stop, detached := fs.Bool("status", false, ""), fs.Bool("stop", false, ""), fs.Bool("detached", false, "")
	return func() (err error) {
		anybody := *dir != ""
		if *dir = a.Absolute(*dir); !anybody {
			if *dir, err = serve.Dir(a.Getenv("XDG_RUNTIME_DIR")); err != nil {
				return cli.Hint(err, "a login sets it; else make a directory that is yours alone, and name it there for sbx, too")
			}
		}
		switch {
		case *stop:
			return stopServer(a, *dir)
		case *status:
			return showServer(a, *dir)
		case *idle <= 0:
			return cli.Usage(fs, fmt.Errorf("-idle %v: write a time above zero with its unit, such as %q", *idle, "10m"))
		case !anybody:
			if err := serve.Servable(); err != nil {
				return err
			}
		}
		s := server{App: a, idle: *idle, dir: *dir, servesAnyone: anybody, keepers: map[string]*keeper{}, running: map[*client]bool{}}
		if err := s.identify(); err != nil {
			return err
		}
		if *detached {
			serve.LeaveCaller()
		}
		if err := s.listen(); err != nil {
			return err
		}
		a.Say("serving " + cli.Quote(filepath.Join(s.dir, serve.Socket)))
		if *detached {
			if err := leaveCaller(); err != nil {
				return err
			}
		}
		return s.run()
	}
}

// leaveCaller gives up the standard error of the process that started this one, because nobody
// reads it any more.
func leaveCaller() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	return unix.Dup3(int(null.Fd()), 2, 0)
}

// stopServer ends the server of a directory.
func stopServer(a *cli.App, dir string) error {
	h, err := serve.HolderOf(dir)
	if err == serve.ErrAbsent {
		a.Say("no server runs")
		return nil
	}
	if err == nil {
		defer h.Close()
		err = h.End()
	}
	return err
}

// showServer prints what the server keeps.
func showServer(a *cli.App, dir string) error {
	text, err := serve.Query(filepath.Join(dir, serve.Socket), "", serve.KindStatus, serve.Empty{}, serve.Patience)
	switch {
	case errors.Is(err, serve.ErrAbsent):
		text = "no server runs\n"
	case err == serve.ErrSilent:
		return fmt.Errorf("%w: sbxhost serve -stop ends it", err)
	case err != nil:
		return err
	}
	return a.Print(cli.Printable(text))
}

// listen locks the server's directory, and opens its socket.
func (s *server) listen() (err error) {
	if err := hostpath.MakePrivate(s.dir, 0o700); err != nil {
		return err
	}
	if s.dir, err = hostpath.Trusted(s.dir); err != nil {
		return err
	}
	if s.lock, err = serve.Hold(s.dir); err == nil {
		s.lock.AfterKill = false
	}
	return err
}

// close stops accepting clients, except for the sessions that the server holds: another server may
// begin. The caller holds s.mu.
func (s *server) close() {
	if !s.closed {
		s.closed = true
		s.lock.Release()
	}
}

// rest is for a server without sessions and clients: it waits for a client, unless none can come, or
// the next one may need another server. The caller holds s.mu.
func (s *server) rest() {
	switch {
	case s.clients > 0 || len(s.keepers) > 0:
	case s.lock.Lost(), s.servesAnyone:
		s.close()
	default:
		s.idleTimer.Reset(s.idle)
	}
}

// server runs the commands of its clients.
type server struct {
	*cli.App
	idle         time.Duration
	identity     serve.Identity
	stamp        string // of this executable
	beside       programs
	dir          string
	servesAnyone bool // it starts sessions for clients that it does not serve otherwise
	lock         *serve.Lock
	idleTimer    *time.Timer
	hosts        hostCache
	all          sync.WaitGroup // of clients, and of those who accept them

	mu       sync.Mutex
	closed   bool // it begins nothing new, and accepts clients only for sessions that it holds
	clients  int
	keepers  map[string]*keeper // by the directories of their sessions
	running  map[*client]bool
	declined []string // the latest clients that it did not serve, and why
}

// errClosed is why a server serves no new client.
var errClosed = errors.New("the server ends, or its programs were replaced")

// maxDeclined is how many of those status shows.
const maxDeclined = 10

// leave records why a client was not served, and tells the client.
func (s *server) leave(r *client, why string) {
	if why != errKept.Error() { // each command of a kept session asks here first
		s.mu.Lock()
		s.declined = append(s.declined, fmt.Sprintf("%s  %s: %s", time.Now().Format(time.DateTime), r.name(), why))
		s.declined = s.declined[max(0, len(s.declined)-maxDeclined):]
		s.mu.Unlock()
	}
	reason := serve.Reason(why)
	r.Write(serve.KindLeave, &reason)
}

// status formats the server's state for people.
func (s *server) status() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf("process %d of %s serves %s, and ends when idle for %v and without kept sessions\n", os.Getpid(), cli.Quote(s.beside.program), cli.Plural(len(s.running), "command"), s.idle)
	for _, dir := range slices.Sorted(maps.Keys(s.keepers)) {
		k := s.keepers[dir]
		kept := ""
		if k.mu.TryLock() { // else it makes a host, which takes a while
			if k.host != nil {
				kept = ", kept"
			}
			k.mu.Unlock()
		}
		text += fmt.Sprintf("it holds session %s (%s)%s, with %s\n", k.name, cli.Quote(dir), kept, cli.Plural(k.clients, "command"))
	}
	if hosts := s.hosts.list(); len(hosts) > 0 {
		text += "\nIt keeps these, one for each environment:\n" + cli.Table("  ", append([][]string{{"WORKSPACE", "SANDBOX", "CONFIGURATION", "IN USE"}}, hosts...))
	}
	if len(s.declined) > 0 {
		text += "\nNot served:\n  " + strings.Join(s.declined, "\n  ") + "\n"
	}
	return text
}

func (s *server) identify() (err error) {
	if s.identity, err = serve.ThisProcess(); err != nil {
		return err
	}
	if s.stamp, err = serve.StampOf("/proc/self/exe"); err != nil {
		return err
	}
	program, err := os.Executable()
	if err == nil {
		s.beside.program, s.beside.dir = program, filepath.Dir(program)
		s.beside.replaced()
	}
	return err
}

// programs are this project's programs in the directory of this one: hosts go on with an engine that
// was replaced, as this process with its own executable.
type programs struct {
	program, dir string // the path of this one, and its directory

	mu     sync.Mutex
	stamp  string // of the directory
	stamps []string
}

// replaced reports whether one of them is another one than at the last call. It looks at them only
// if something in the directory has changed: a running program cannot be written in place.
func (p *programs) replaced() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	stamp, err := serve.StampOf(p.dir)
	if err == nil && stamp == p.stamp {
		return false
	}
	before := p.stamps
	p.stamp, p.stamps = stamp, nil
	files, _ := os.ReadDir(p.dir) // otherwise they are all gone
	for _, file := range files {
		if strings.HasPrefix(file.Name(), "sbxhost") {
			stamp, _ := serve.StampOf(filepath.Join(p.dir, file.Name()))
			p.stamps = append(p.stamps, file.Name()+" "+stamp)
		}
	}
	return !slices.Equal(p.stamps, before)
}

// run serves until there was no client for some time, somebody replaced the executable, or a signal
// comes. The commands get the signal, too.
func (s *server) run() error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	// A lost terminal, or a lost client, is no reason to end.
	signal.Ignore(syscall.SIGPIPE)
	stop := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.close()
	}
	s.idleTimer = time.AfterFunc(s.idle, stop)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		var again <-chan time.Time // the end of a command can let another one begin in its session
		for {
			select {
			case sig := <-signals:
				stop()
				s.pass(sig)
				again = time.Tick(execute.FullDelay)
			case <-again:
				s.endKeepers()
			case <-time.After(5 * time.Second): // or its lock would keep out the next server until it is idle
				if s.lock.Lost() {
					stop()
				}
			case <-ended:
				return
			}
		}
	}()
	s.all.Go(func() { s.accept(s.lock) })
	s.all.Wait()
	s.endKeepers()
	return s.hosts.close()
}

// accept attends the clients of a socket until it is closed.
func (s *server) accept(l *serve.Lock) {
	for {
		conn, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(execute.FullDelay) // while commands run, there are as many files
			continue
		}
		s.mu.Lock()
		s.clients++
		s.idleTimer.Stop()
		s.mu.Unlock()
		s.all.Go(func() {
			defer func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.clients--
				s.rest()
			}()
			s.attend(conn)
		})
	}
}

// pass passes a signal to all commands except those of sessions, which end with their sessions.
func (s *server) pass(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.running {
		if r.AdaptTo == nil {
			r.signal(sig)
			go io.WriteString(r.Stderr, "sbxhost: sbxhost serve ends, and the command with it\n") // it may be a pipe that nobody reads
		}
	}
}

// attend does what one client wants, or makes the client do it itself.
func (s *server) attend(conn *net.UnixConn) {
	raw, err := conn.SyscallConn()
	if err != nil {
		conn.Close()
		return
	}
	life, gone := context.WithCancel(context.Background())
	defer gone()
	r := &client{Conn: frame.Over(raw), gone: gone}
	r.Remote = execute.Remote{Take: s.hosts.take, Send: r.Write, Signals: make(chan os.Signal, 16), Life: life}
	defer func() {
		conn.Close()
		r.reading.Wait()
		r.closeFiles()
	}()
	end, why := s.serveOne(r, conn, raw)
	switch {
	case why != "":
		s.leave(r, why)
	case !r.query:
		r.Write(serve.KindExit, &end)
	}
}

// serveOne runs the command of a client, or says why it does not.
func (s *server) serveOne(r *client, conn *net.UnixConn, raw syscall.RawConn) (end serve.Number, why string) {
	// First of all: a client that finds another program here leaves, and may be gone by now.
	if s.beside.replaced() {
		s.mu.Lock()
		s.close()
		s.mu.Unlock()
	}
	var peer serve.Peer
	var other error
	if err := raw.Control(func(fd uintptr) { peer, other = serve.Look(int(fd), s.identity) }); err != nil || other != nil {
		return 0, errors.Join(err, other).Error()
	}
	r.Usage = peer.Usage
	challenge, err := serve.NewChallenge()
	if err != nil {
		return 0, err.Error()
	}
	defer challenge.Close()
	r.Write(serve.KindWelcome, challenge.Number())
	conn.SetReadDeadline(time.Now().Add(helloTime))
	kind, hello, err := r.hello()
	if err == nil && hello == nil {
		if err = s.answer(r, kind); err == nil {
			return 0, ""
		}
	}
	if err == io.EOF || errors.Is(err, unix.ECONNRESET) {
		return 0, "" // it only looked who is here, as serve.HolderOf
	} else if err != nil {
		return 0, err.Error()
	}
	conn.SetReadDeadline(time.Time{})
	r.args = hello.Args
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	switch {
	case peer.Confined != nil:
		return 0, peer.Confined.Error()
	case challenge.Unmet(hello) != "":
		return 0, challenge.Unmet(hello)
	case hello.Program != s.stamp:
		return 0, "the server is another program"
	case !hello.Keep && closed:
		return 0, errClosed.Error()
	}
	e, fs := r.execution(s, hello)
	if fs.Parse(hello.Args) != nil || !e.Take(fs, hello.Shell) {
		return 0, cmp.Or(e.OwnProcess(), "its command line asks for help, or has an error")
	}
	if own := e.OwnProcess(); !hello.Keep && own != "" {
		return 0, own
	}
	name := e.SessionName()
	if !hello.Keep && peer.Apart != nil {
		return 0, peer.Apart.Error()
	}
	r.reading.Go(r.listen)
	if hello.Keep || name != "" {
		k, err := s.enter(r.Life, e.App, name, hello.Keep, peer.Apart)
		if err != nil {
			return 0, err.Error()
		}
		defer s.exit(k, hello.Keep)
		if hello.Keep {
			r.Take, r.AdaptTo = k.take, k.adapt
		}
		r.MakeWay = func() (kept string) {
			if kept = s.makeWay(k); hello.Keep {
				return ""
			}
			return kept
		}
	}
	s.mu.Lock()
	s.running[r] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.running, r)
		s.mu.Unlock()
	}()
	status := e.RunAndReport()
	if hello.Keep {
		r.Settle(nil) // messages before a start are for the client
	}
	if !r.ClientEnds {
		why = cmp.Or(r.Why, r.Stderr.Text(), "nothing was run")
	}
	return serve.Ended(status, e.Ended, e.Taken), why
}

// answer answers requests that are not commands.
func (s *server) answer(r *client, kind byte) (err error) {
	text := ""
	if kind == serve.KindStatus {
		text = s.status()
	} else if text, err = s.session(&r.about); err != nil {
		return err
	}
	reason := serve.Reason(text)
	r.Write(kind, &reason)
	r.query = true
	return nil
}

// client is a connection of sbx, or of an exec with a kept session.
type client struct {
	execute.Remote
	*frame.Conn
	gone    func()
	reading sync.WaitGroup
	streams []*os.File // the client's standard streams
	args    []string
	about   serve.Session // the session it asks for
	query   bool          // for a request that is not a command
}

// name is the client's request, for people.
func (r *client) name() string {
	if r.args == nil {
		return "a process"
	}
	return "sbx " + cli.ShellQuote(r.args...)
}

// hello reads what a client wants: a command, if hello is not nil.
func (r *client) hello() (kind byte, hello *serve.Hello, err error) {
	kind, payload, err := r.Next(serve.MaxMessage)
	switch {
	case err != nil || kind == serve.KindStatus:
	case kind == serve.KindSession:
		err = frame.Decode(payload, &r.about)
	case kind == serve.KindHello:
		hello = &serve.Hello{}
		err = cmp.Or(frame.Decode(payload, hello), r.claimStreams())
	default:
		err = frame.Malformed("no hello")
	}
	return kind, hello, err
}

func (r *client) claimStreams() error {
	names := [serve.Files]string{"standard input", "standard output", "standard error"}
	fds, err := r.Claim(serve.Files)
	for i, fd := range fds {
		r.streams = append(r.streams, os.NewFile(uintptr(fd), names[i]))
	}
	return err
}

func (r *client) closeFiles() {
	r.Discard()
	frame.CloseFiles(r.streams)
}

// execution returns the client's Execution.
func (r *client) execution(s *server, hello *serve.Hello) (*execute.Execution, *flag.FlagSet) {
	r.Stderr = &execute.Buffer{File: r.streams[2]}
	a := &cli.App{Stdin: r.streams[0], Stdout: r.streams[1], Stderr: r.Stderr,
		Caller: inforce.Caller{Dir: hello.Dir, Environ: append([]string{}, hello.Environ...), Builtins: s.Builtins, Inject: s.Inject}}
	e := &execute.Execution{App: a, Remote: &r.Remote}
	fs := cli.NewFlags("exec")
	e.RegisterExec(fs)
	r.Typed = hello.Typed
	r.Stderr.Raw = hello.Typed && cli.IsTerminal(r.streams[2])
	return e, fs
}

// listen passes signals on, and ends the command if the client is gone.
func (r *client) listen() {
	for {
		kind, payload, err := r.Next(serve.MaxMessage)
		var number serve.Number
		if err != nil || kind != serve.KindSignal || frame.Decode(payload, &number) != nil {
			r.Stderr.End()
			r.gone()
			return
		}
		r.signal(syscall.Signal(number))
	}
}

func (r *client) signal(sig os.Signal) {
	select {
	case r.Signals <- sig:
	default: // as many wait as the kernel would keep
	}
}
