package keep

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/execute"
	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/serve"
)

const (
	defaultIdle = 10 * time.Minute
	// helloTime is how long a client may take to say what it wants, once connected.
	helloTime = 5 * time.Second
	// gcPercent lets the heap, of which some MiB live, grow fivefold: with Go's own 100 a tenth of a command's
	// time goes to the garbage of those before.
	gcPercent = 400
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
		debug.SetGCPercent(gcPercent)
		s := server{App: a, idle: *idle, dir: *dir, socket: filepath.Join(*dir, serve.Socket), servesAnyone: anybody, keepers: map[string]*keeper{}, running: map[*client]bool{}}
		if err := s.identify(); err != nil {
			return err
		}
		if *detached {
			serve.LeaveCaller()
		}
		if err := s.listen(); err != nil {
			return err
		}
		a.Say("serving " + cli.Quote(s.socket))
		if *detached {
			if err := leaveCaller(); err != nil {
				return err
			}
		}
		return s.run()
	}
}

// leaveCaller gives up the standard error of who has started this process, where nobody reads any more.
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

// showServer shows what it keeps.
func showServer(a *cli.App, dir string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := serve.Query(filepath.Join(dir, serve.Socket), program, serve.KindStatus, serve.Empty{})
	if errors.Is(err, serve.ErrAbsent) {
		text, err = "no server runs\n", nil
	}
	if err != nil {
		return err
	}
	return a.Print(cli.Printable(text))
}

// listen opens the socket, under a lock that lasts as long as this process.
func (s *server) listen() (err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(s.dir, &st); err != nil {
		return &os.PathError{Op: "lstat", Path: s.dir, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return fmt.Errorf("%s is not a directory of yours alone: it must have mode 0700", cli.Quote(s.dir))
	}
	if s.lock, err = serve.Hold(s.dir, ""); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.lock.Release()
		}
	}()
	at, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	defer at.Close()
	path := serve.Address(at, serve.Socket)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // of one that was killed
		return err
	}
	if s.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}); err != nil {
		return err
	}
	s.listener.SetUnlinkOnClose(false) // another server may be in its place by then
	return os.Chmod(path, 0o600)
}

// close has nobody come any more. The caller holds s.mu.
func (s *server) close() {
	if !s.closed {
		s.closed = true
		os.Remove(s.socket)
		s.listener.Close()
	}
}

// retire lets another server begin, where the executable was replaced: what this one holds, it holds on.
func (s *server) retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired || s.closed {
		return
	}
	s.retired = true
	if len(s.keepers) == 0 {
		s.close()
		return
	}
	path := fmt.Sprintf("%s.%d", s.socket, os.Getpid())
	if os.Rename(s.socket, path) == nil {
		s.socket = path
	}
	for _, k := range s.keepers {
		k.lock.Listen(s.socket) // else who ends the session ends all of this process
	}
	s.lock.Release()
}

// rest is for a server that holds no session, and has no client: it waits for one, unless it is nobody's any
// more. The caller holds s.mu.
func (s *server) rest() {
	switch {
	case s.clients > 0 || len(s.keepers) > 0:
	case s.retired:
		s.close()
	default:
		s.quiet.Reset(s.idle)
	}
}

// server runs the commands of its clients.
type server struct {
	*cli.App
	idle         time.Duration
	identity     serve.Identity
	program      string // the path of this executable, and its stamp when it was started
	stamp        string
	dir          string
	servesAnyone bool // has a session begin who is not served otherwise
	lock         *serve.Lock
	listener     *net.UnixListener
	quiet        *time.Timer
	hosts        hostCache

	mu       sync.Mutex
	socket   string // its path
	closed   bool   // it accepts no more
	retired  bool   // nor anything new
	clients  int
	keepers  map[string]*keeper // by the directories of their sessions
	running  map[*client]bool
	declined []string // the last clients that were not served, and why
}

// errReplaced is why a server serves nobody new.
var errReplaced = errors.New("the server's program was replaced")

// maxDeclined is how many of those are shown.
const maxDeclined = 10

// leave takes down why a client was not served, and tells it.
func (s *server) leave(r *client, why string) {
	s.mu.Lock()
	s.declined = append(s.declined, fmt.Sprintf("%s  %s: %s", time.Now().Format(time.DateTime), r.name(), why))
	s.declined = s.declined[max(0, len(s.declined)-maxDeclined):]
	s.mu.Unlock()
	reason := serve.Reason(why)
	r.Send(serve.KindLeave, &reason)
}

// status is for people.
func (s *server) status() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf("process %d serves %s, and ends when idle for %v\n", os.Getpid(), cli.Plural(len(s.running), "command"), s.idle)
	for _, dir := range slices.Sorted(maps.Keys(s.keepers)) {
		k := s.keepers[dir]
		text += fmt.Sprintf("it holds session %s (%s), with %s\n", k.name, cli.Quote(dir), cli.Plural(k.clients, "command"))
	}
	if hosts := s.hosts.list(); len(hosts) > 0 {
		text += "\nIt keeps these:\n" + cli.Table("  ", append([][]string{{"WORKSPACE", "SANDBOX", "CONFIGURATION", "IN USE"}}, hosts...))
	}
	if len(s.declined) > 0 {
		text += "\nNot served were:\n  " + strings.Join(s.declined, "\n  ") + "\n"
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
	s.program, err = os.Executable()
	return err
}

// run serves until nobody has come for some time, the executable was replaced, or a signal
// comes, which the commands get, too.
func (s *server) run() error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	// What is nobody's terminal any more is no reason to end, nor is a client that is gone.
	signal.Ignore(syscall.SIGPIPE)
	stop := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.close()
	}
	s.quiet = time.AfterFunc(s.idle, stop)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case sig := <-signals:
				stop()
				s.pass(sig)
				s.endKeepers()
			case <-ended:
				return
			}
		}
	}()
	var all sync.WaitGroup
	for {
		conn, err := s.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			break
		}
		switch {
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ECONNABORTED):
			time.Sleep(execute.FullDelay) // as long as no command ends, there are as many files
			continue
		case err != nil:
			return err
		}
		s.mu.Lock()
		s.clients++
		s.quiet.Stop()
		s.mu.Unlock()
		all.Go(func() {
			defer func() {
				conn.Close()
				s.mu.Lock()
				defer s.mu.Unlock()
				s.clients--
				s.rest()
			}()
			s.attend(conn)
		})
	}
	all.Wait()
	s.endKeepers()
	return s.hosts.close()
}

// pass passes a signal on to all commands but those of sessions, which end with these.
func (s *server) pass(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.running {
		if r.AdaptTo == nil {
			r.signal(sig)
		}
	}
}

// attend does what one client wants, or has it do that itself.
func (s *server) attend(conn *net.UnixConn) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	life, gone := context.WithCancel(context.Background())
	defer gone()
	r := &client{raw: raw, gone: gone}
	r.Remote = execute.Remote{Take: s.hosts.take, Send: r.send, Signals: make(chan os.Signal, 16), Life: life}
	defer r.closeFiles()
	status, why := s.serveOne(r, conn)
	switch {
	case why != "":
		s.leave(r, why)
	case !r.query:
		number := serve.Ended(status, r.Ended)
		r.Send(serve.KindExit, &number)
	}
}

// serveOne runs the command of a client, or says why not.
func (s *server) serveOne(r *client, conn *net.UnixConn) (status int, why string) {
	// Before anything else: a client that finds another program here leaves, and may be gone by now.
	if now, err := serve.StampOf(s.program); err != nil || now != s.stamp {
		s.retire()
	}
	var peer serve.Peer
	var other error
	if err := r.raw.Control(func(fd uintptr) { peer, other = serve.Look(int(fd), s.identity) }); err != nil || other != nil {
		return 0, errors.Join(err, other).Error()
	}
	r.Usage = peer.Usage
	r.Send(serve.KindWelcome, serve.Empty{})
	conn.SetReadDeadline(time.Now().Add(helloTime))
	kind, hello, err := r.hello()
	if err == nil && hello == nil {
		if err = s.answer(r, kind); err == nil {
			return 0, ""
		}
	}
	if err != nil {
		return 0, err.Error()
	}
	conn.SetReadDeadline(time.Time{})
	r.args = hello.Args
	s.mu.Lock()
	retired := s.retired
	s.mu.Unlock()
	switch {
	case peer.Confined != nil:
		return 0, peer.Confined.Error()
	case hello.Program != s.stamp:
		return 0, "the server is another program"
	case !hello.Keep && retired:
		return 0, errReplaced.Error()
	case !hello.Keep && peer.Apart != nil:
		return 0, peer.Apart.Error()
	}
	e, fs := r.execution(s, hello)
	if fs.Parse(hello.Args) != nil || !e.Take(fs, hello.Shell) {
		return 0, "its command line is to be refused by itself"
	}
	if own := e.OwnProcess(); !hello.Keep && own != "" {
		return 0, own
	}
	go r.listen()
	if name := e.SessionName(); hello.Keep || name != "" {
		k, err := s.enter(r.Life, e.App, name, hello.Keep, peer.Apart)
		if err != nil {
			return 0, err.Error()
		}
		defer s.exit(k, hello.Keep)
		if hello.Keep {
			r.Take, r.AdaptTo = k.take, k.adapt
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
	status = e.RunAndReport()
	if hello.Keep {
		r.Settle(nil) // what is said before a start is for the client
	}
	if !r.ClientEnds {
		why = cmp.Or(r.Stderr.Text(), r.Why, "nothing was run")
	}
	return status, why
}

// answer answers what is no command.
func (s *server) answer(r *client, kind byte) (err error) {
	text := ""
	if kind == serve.KindStatus {
		text = s.status()
	} else if text, err = s.session(&r.about); err != nil {
		return err
	}
	reason := serve.Reason(text)
	r.Send(kind, &reason)
	r.query = true
	return nil
}

// client is a connection of sbx, or of an exec that has a kept session.
type client struct {
	execute.Remote
	raw     syscall.RawConn
	gone    func()
	files   []int      // received, and not anybody's yet
	streams []*os.File // the client's standard streams
	writing sync.Mutex
	args    []string
	about   serve.Session // that it asks for
	query   bool          // for what is no command
}

// name is what it asks for, for people.
func (r *client) name() string {
	if r.args == nil {
		return "a process"
	}
	return "sbx " + cli.QuoteAll(r.args)
}

func (r *client) send(kind byte, m frame.Message) {
	r.writing.Lock()
	defer r.writing.Unlock()
	_ = frame.Send(r.raw, frame.Encode(kind, m, 16)) // else the client is gone, which the reader sees
}

// Read implements [io.Reader], and keeps the descriptors that come along.
func (r *client) Read(p []byte) (int, error) {
	n, fds, err := frame.ReceivePolled(r.raw, p)
	r.files = append(r.files, fds...)
	return n, err
}

// hello hears what a client wants: a command, if hello is not nil.
func (r *client) hello() (kind byte, hello *serve.Hello, err error) {
	kind, payload, err := frame.Read(r, serve.MaxMessage)
	switch {
	case err != nil || kind == serve.KindStatus:
	case kind == serve.KindSession:
		err = frame.Decode(payload, &r.about)
	case kind == serve.KindHello && len(r.files) == serve.Files:
		hello = &serve.Hello{}
		err = frame.Decode(payload, hello)
	default:
		err = frame.Malformed("no hello with its descriptors")
	}
	return kind, hello, err
}

func (r *client) closeFiles() {
	frame.CloseAll(r.files)
	for _, f := range r.streams {
		f.Close()
	}
}

// execution is that of a client.
func (r *client) execution(s *server, hello *serve.Hello) (*execute.Execution, *flag.FlagSet) {
	for i, name := range []string{"standard input", "standard output", "standard error"} {
		r.streams = append(r.streams, os.NewFile(uintptr(r.files[i]), name))
	}
	r.files = nil
	r.Stderr = &execute.Buffered{File: r.streams[2]}
	a := &cli.App{Stdin: r.streams[0], Stdout: r.streams[1], Stderr: r.Stderr, Environ: append([]string{}, hello.Environ...), Dir: hello.Dir, Builtins: s.Builtins, Inject: s.Inject}
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
		kind, payload, err := frame.Read(r, serve.MaxMessage)
		frame.CloseAll(r.files)
		r.files = nil
		var number serve.Number
		if err == nil {
			if kind != serve.KindSignal {
				err = frame.Malformed("no signal")
			} else {
				err = frame.Decode(payload, &number)
			}
		}
		if err != nil {
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
