package keep

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/execute"
	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/serve"
)

const (
	defaultIdle = 10 * time.Minute
	// helloTime is how long a client may take to say what it wants, once connected.
	helloTime = 5 * time.Second
)

// Serve keeps hosts for the commands of sbx.
func Serve(a *cli.App, fs *flag.FlagSet) func() error {
	idle := fs.Duration("idle", defaultIdle, "")
	session := fs.String("session", "", "")
	status, stop, detached := fs.Bool("status", false, ""), fs.Bool("stop", false, ""), fs.Bool("detached", false, "")
	return func() error {
		if *status || *stop {
			return askServer(a, *stop)
		}
		if *idle <= 0 {
			return cli.Usage(fs, fmt.Errorf("-idle %v: write a time above zero with its unit, such as %q", *idle, "10m"))
		}
		s := server{App: a, idle: *idle, running: map[*client]bool{}}
		if err := s.identify(); err != nil {
			return err
		}
		var dir string
		var err error
		if *session != "" {
			s.keeper, dir, err = newKeeper(a, *session)
			s.identity = s.identity.Confinement()
		} else if dir, err = serve.Dir(a.Getenv("XDG_RUNTIME_DIR")); err != nil {
			err = cli.Hint(err, "a login sets it; else make a directory that is yours alone, and name it there for sbx, too")
		}
		if err == nil && s.keeper == nil {
			err = serve.Servable()
		}
		if err != nil {
			return err
		}
		if *detached {
			serve.LeaveCaller()
		}
		listener, remove, err := listen(dir)
		if err != nil {
			return err
		}
		defer remove()
		a.Say("serving " + cli.Quote(filepath.Join(dir, serve.Socket)))
		if *detached {
			if err := leaveCaller(); err != nil {
				return err
			}
		}
		return s.run(listener)
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

// askServer shows what the server of this user keeps, or ends it.
func askServer(a *cli.App, stop bool) error {
	dir, err := serve.Dir(a.Getenv("XDG_RUNTIME_DIR"))
	if err != nil {
		return err
	}
	if stop {
		k, err := findServer(dir)
		if err == errNotKept {
			a.Say("no server runs")
			return nil
		}
		if err == nil {
			defer k.close()
			err = k.end()
		}
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := serve.Status(filepath.Join(dir, serve.Socket), program)
	if errors.Is(err, serve.ErrAbsent) {
		text, err = "no server runs\n", nil
	}
	if err != nil {
		return err
	}
	return a.Print(cli.Printable(text))
}

// listen opens the socket, under a lock that lasts as long as this process.
func listen(dir string) (listener *net.UnixListener, remove func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return nil, nil, &os.PathError{Op: "lstat", Path: dir, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return nil, nil, fmt.Errorf("%s is not a directory of yours alone: it must have mode 0700", cli.Quote(dir))
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, nil, err
	}
	var at *os.File
	release := func() {
		at.Close()
		lock.Close()
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	if err := hostpath.TryLock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		if err == unix.EWOULDBLOCK {
			return nil, nil, serve.ErrServed
		}
		return nil, nil, &os.PathError{Op: "lock", Path: lock.Name(), Err: err}
	}
	if _, err = lock.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0); err == nil {
		err = lock.Truncate(int64(len(strconv.Itoa(os.Getpid()))))
	}
	if err == nil {
		at, err = os.Open(dir)
	}
	if err != nil {
		return nil, nil, err
	}
	path := serve.Address(at, serve.Socket)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // of one that was killed
		return nil, nil, err
	}
	listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return nil, nil, err
	}
	listener.SetUnlinkOnClose(true)
	return listener, release, nil
}

// server runs the commands of its clients.
type server struct {
	*cli.App
	idle     time.Duration
	identity serve.Identity
	program  string // the path of this executable, and its stamp when it was started
	stamp    string
	hosts    keptHosts
	keeper   *keeper // of a session; nil for any commands

	mu      sync.Mutex
	clients int
	running map[*client]bool
	retire  func()   // accept no more
	left    []string // the last clients that were not served, and why
}

// maxLeft is how many of those are shown.
const maxLeft = 10

// leave takes down why a client was not served, and tells it.
func (s *server) leave(r *client, why string) {
	s.mu.Lock()
	s.left = append(s.left, fmt.Sprintf("%s  %s: %s", time.Now().Format(time.DateTime), r.name(), why))
	s.left = s.left[max(0, len(s.left)-maxLeft):]
	s.mu.Unlock()
	reason := serve.Reason(why)
	r.Send(serve.KindLeave, &reason)
}

// status is for people.
func (s *server) status() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf("process %d serves %s, and ends when idle for %v\n", os.Getpid(), cli.Plural(len(s.running), "command"), s.idle)
	if hosts := s.hosts.list(); len(hosts) > 0 {
		text += "\nIt keeps these:\n" + cli.Table("  ", append([][]string{{"WORKSPACE", "SANDBOX", "CONFIGURATION", "IN USE"}}, hosts...))
	}
	if len(s.left) > 0 {
		text += "\nNot served were:\n  " + strings.Join(s.left, "\n  ") + "\n"
	}
	return text
}

func (s *server) identify() (err error) {
	if s.identity, err = serve.Own(); err != nil {
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
func (s *server) run(listener *net.UnixListener) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	// What is nobody's terminal any more is no reason to end, nor is a client that is gone.
	signal.Ignore(syscall.SIGPIPE)
	quiet := time.AfterFunc(s.idle, func() { listener.Close() })
	s.retire = func() { listener.Close() }
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case sig := <-signals:
				listener.Close()
				if s.keeper != nil {
					s.keeper.end()
				} else {
					s.pass(sig)
				}
			case <-ended:
				return
			}
		}
	}()
	var all sync.WaitGroup
	for {
		conn, err := listener.AcceptUnix()
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
		quiet.Stop()
		s.mu.Unlock()
		all.Go(func() {
			defer func() {
				conn.Close()
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.clients--; s.clients == 0 {
					quiet.Reset(s.keeper.idle(s.idle))
				}
			}()
			s.attend(conn)
		})
	}
	all.Wait()
	s.keeper.end()
	return s.hosts.close()
}

// pass passes a signal on to all commands.
func (s *server) pass(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.running {
		r.signal(sig)
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
	r.Remote = execute.Remote{Take: s.hosts.take, Send: r.tell, Signals: make(chan os.Signal, 16), Life: life}
	if s.keeper != nil {
		r.Take, r.AdaptTo = s.keeper.take, s.keeper.adapt
	}
	defer r.closeFiles()
	status, why := s.serveOne(r, conn)
	switch {
	case why != "":
		s.leave(r, why)
	case !r.asked:
		number := serve.Ended(status, r.Ended)
		r.Send(serve.KindExit, &number)
	}
}

// serveOne runs the command of a client, or says why not.
func (s *server) serveOne(r *client, conn *net.UnixConn) (status int, why string) {
	// Before anything else: a client that finds another program here leaves, and may be gone by now.
	if now, err := serve.StampOf(s.program); s.keeper == nil && (err != nil || now != s.stamp) {
		s.retire()
		return 0, "the server's program was replaced"
	}
	var same error
	if err := r.raw.Control(func(fd uintptr) { r.Usage, same = serve.Same(int(fd), s.identity) }); err != nil || same != nil {
		err = errors.Join(err, same)
		r.refuse(fmt.Errorf("the session's keeper is confined otherwise than this process: %w", err))
		return 0, err.Error()
	}
	r.Send(serve.KindWelcome, serve.Nothing{})
	conn.SetReadDeadline(time.Now().Add(helloTime))
	hello, err := r.hello()
	switch {
	case errors.Is(err, errStatus):
		text := serve.Reason(s.status())
		r.Send(serve.KindStatus, &text)
		r.asked = true
		return 0, ""
	case err != nil:
		return 0, err.Error()
	case hello.Program != s.stamp:
		return 0, "the server is another program"
	}
	conn.SetReadDeadline(time.Time{})
	r.args = hello.Args
	e, fs := r.execution(s, &hello)
	if fs.Parse(hello.Args) != nil || !e.Take(fs, hello.Shell) {
		return 0, "its command line is to be refused by itself"
	}
	if own := e.OwnProcess(); s.keeper == nil && own != "" {
		return 0, own
	}
	s.mu.Lock()
	s.running[r] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.running, r)
		s.mu.Unlock()
	}()
	go r.listen()
	status = e.RunAndTell()
	if s.keeper != nil {
		r.Settle(nil) // what is said before a start is for the client
	}
	if !r.Settled {
		why = cmp.Or(r.Stderr.Text(), r.Why, "nothing was run")
	}
	return status, why
}

// client is a connection of sbx, or of an exec that has a kept session.
type client struct {
	execute.Remote
	raw     syscall.RawConn
	gone    func()
	files   []int      // received, and not anybody's yet
	own     []*os.File // the client's standard streams
	writing sync.Mutex
	args    []string
	asked   bool // for the status
}

// name is what it asks for, for people.
func (r *client) name() string {
	if r.args == nil {
		return "a process"
	}
	return "sbx " + cli.QuoteAll(r.args)
}

// refuse tells the client of a keeper why nothing is run.
func (r *client) refuse(why error) {
	if r.AdaptTo != nil {
		reason := serve.Reason(why.Error())
		r.Send(serve.KindRefuse, &reason)
	}
}

func (r *client) tell(kind byte, m frame.Message) {
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

func (r *client) hello() (hello serve.Hello, err error) {
	kind, payload, err := frame.Read(r, serve.MaxMessage)
	if err != nil {
		return hello, err
	}
	if kind == serve.KindStatus {
		return hello, errStatus
	}
	if kind != serve.KindHello || len(r.files) != serve.Files {
		return hello, frame.Malformed("no hello with its descriptors")
	}
	return hello, frame.Decode(payload, &hello)
}

// errStatus says that the client asks for the status.
var errStatus = errors.New("it asks for the status")

func (r *client) closeFiles() {
	frame.CloseAll(r.files)
	for _, f := range r.own {
		f.Close()
	}
}

// execution is that of a client.
func (r *client) execution(s *server, hello *serve.Hello) (*execute.Execution, *flag.FlagSet) {
	for i, name := range []string{"standard input", "standard output", "standard error"} {
		r.own = append(r.own, os.NewFile(uintptr(r.files[i]), name))
	}
	r.files = nil
	r.Stderr = &execute.HeldBack{File: r.own[2]}
	a := &cli.App{Stdin: r.own[0], Stdout: r.own[1], Stderr: r.Stderr, Environ: append([]string{}, hello.Environ...), Dir: hello.Dir, Builtins: s.Builtins, Inject: s.Inject}
	e := &execute.Execution{App: a, Remote: &r.Remote}
	fs := cli.NewFlags("exec")
	e.RegisterExec(fs)
	r.Typed = hello.Typed
	r.Stderr.Raw = hello.Typed && cli.IsTerminal(r.own[2])
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
