package sandboxinit

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/testing/programs"
)

// way is one way of running the init.
type way struct {
	name     string
	launcher []string // argv before Argv
	lean     bool     // the real sbxhost-init, not the test binary
	locked   bool     // see Confinement
}

var bwrapOptions = []string{
	"bwrap", "--unshare-all", "--as-pid-1", "--die-with-parent", "--cap-drop", "ALL",
	"--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--chdir", "/",
}

var (
	direct    = way{name: "direct", lean: true}
	locked    = way{name: "locked", lean: true, locked: true}
	bwrapLean = way{name: "bwrap", launcher: bwrapOptions, lean: true}
	// A race-enabled test binary sleeps for a second at each exit unless told not to.
	bwrapSelf = way{name: "bwrap, re-executed", launcher: append(slices.Clip(bwrapOptions), "--setenv", "GORACE", "atexit_sleep_ms=0")}
)

// each runs a test in every way of running the init.
func each(t *testing.T, test func(t *testing.T, w way)) {
	t.Helper()
	for _, w := range []way{direct, locked, bwrapLean, bwrapSelf} {
		if w.locked && os.Getuid() != 0 {
			continue // who is no init of an engine, with capabilities in its namespaces, cannot map itself
		}
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			w.require(t)
			test(t, w)
		})
	}
}

// require skips where bwrap is missing or of no use, unless it must be there.
func (w way) require(t testing.TB) {
	t.Helper()
	if w.launcher == nil {
		return
	}
	try := exec.Command(bwrapOptions[0], append(bwrapOptions[1:], "true")...)
	if out, err := try.CombinedOutput(); err != nil {
		if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "bwrap") {
			t.Fatalf("bwrap is required: %v: %s", err, out)
		}
		t.Skipf("no bwrap here: %v: %s", err, out)
	}
}

func (w way) binary(t testing.TB) Binary {
	t.Helper()
	if !w.lean {
		b, err := Locate()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	dir, err := programs.Dir("cmd/sbxhost-init") // the real binary
	if err != nil {
		t.Fatal(err)
	}
	return Binary{Path: filepath.Join(dir, "sbxhost-init")}
}

// sandbox is a launched init.
type sandbox struct {
	*Conn
	launcher *exec.Cmd
	stdout   io.Reader // of the command; EOF when nobody inside holds it
	stderr   io.Reader
	diag     bytes.Buffer // fds 1 and 2 of launcher and init
	ended    chan struct{}
	locked   bool
}

// Wait is the init's, without what the command has used.
func (s *sandbox) Wait() (Status, error) {
	status, err := s.Conn.Wait()
	status.CPU, status.Memory = 0, 0
	return status, err
}

// launch starts launcher and init. stdio of the command: stdin as given or
// /dev/null, pipes for the other two unless given as a terminal.
func (w way) launch(t testing.TB, stdin *os.File, tty bool) *sandbox {
	t.Helper()
	exe, err := w.binary(t).Open()
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	engineEnd, initEnd, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer initEnd.Close()
	if stdin == nil {
		if stdin, err = os.Open(os.DevNull); err != nil {
			t.Fatal(err)
		}
		defer stdin.Close()
	}
	s := &sandbox{Conn: NewConn(engineEnd), ended: make(chan struct{}), locked: w.locked}
	out, errs := stdin, stdin
	if !tty {
		var readOut, readErr *os.File
		if readOut, out, err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		if readErr, errs, err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
		defer errs.Close()
		s.stdout, s.stderr = readOut, readErr
		t.Cleanup(func() { readOut.Close(); readErr.Close() })
	}
	argv := slices.Concat(w.launcher, Argv(3, 4))
	s.launcher = exec.Command(argv[0], argv[1:]...)
	if len(w.launcher) == 0 {
		s.launcher.Path = argv[0]
	}
	s.launcher.Env = []string{}
	s.launcher.Stdout, s.launcher.Stderr = &s.diag, &s.diag
	s.launcher.ExtraFiles = []*os.File{exe, initEnd}
	if err := s.launcher.Start(); err != nil {
		engineEnd.Close()
		t.Fatal(err)
	}
	if err := s.Complete([3]*os.File{stdin, out, errs}, nil); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.launcher.Wait()
		close(s.ended)
	}()
	t.Cleanup(func() {
		s.Close()
		<-s.ended
	})
	return s
}

func (s *sandbox) start(t testing.TB, cmd Command) {
	t.Helper()
	cmd.Locked = cmd.Locked || s.locked
	if err := s.Start(t.Context(), cmd); err != nil {
		s.Close()
		<-s.ended
		t.Fatalf("Start: %v; diagnosis: %s", err, s.diag.String())
	}
}

// line reads one line of the command's stdout.
func (s *sandbox) line(t testing.TB) string {
	t.Helper()
	var line []byte
	for b := make([]byte, 1); ; {
		if _, err := s.stdout.Read(b); err != nil {
			t.Fatalf("stdout ended after %q: %v", line, err)
		}
		if b[0] == '\n' {
			return string(line)
		}
		line = append(line, b[0])
	}
}

type result struct {
	status         Status // without Alone
	alone          bool
	ended          uint64
	err            error // of Start, else of Wait
	stdout, stderr string
	diag           string
	launcherCode   int
}

// run is a whole life.
func (w way) run(t testing.TB, cmd Command) result {
	t.Helper()
	s := w.launch(t, nil, false)
	return s.run(t, cmd)
}

func (s *sandbox) run(t testing.TB, cmd Command) result {
	t.Helper()
	var r result
	var stdout, stderr []byte
	var readers sync.WaitGroup
	readers.Go(func() { stdout, _ = io.ReadAll(s.stdout) })
	readers.Go(func() { stderr, _ = io.ReadAll(s.stderr) })
	cmd.Locked = cmd.Locked || s.locked
	if r.err = s.Start(t.Context(), cmd); r.err == nil {
		r.status, r.err = s.Wait()
		r.alone, r.ended, r.status.Alone, r.status.Ended = r.status.Alone, r.status.Ended, false, 0
	}
	<-s.ended
	readers.Wait()
	s.Close()
	r.stdout, r.stderr, r.diag = string(stdout), string(stderr), s.diag.String()
	r.launcherCode = s.launcher.ProcessState.ExitCode()
	return r
}

// mustRun is run for a command that is to succeed.
func (w way) mustRun(t testing.TB, cmd Command) result {
	t.Helper()
	r := w.run(t, cmd)
	if r.err != nil || r.status != (Status{}) || r.diag != "" {
		t.Fatalf("status %+v, error %v, stderr %q, diagnosis %q", r.status, r.err, r.stderr, r.diag)
	}
	return r
}

var testPath = "PATH=/usr/local/bin:/usr/bin:/bin"

func sh(script string, args ...string) Command {
	return Command{Args: append([]string{"/bin/sh", "-c", script, "sh"}, args...), Env: []string{testPath}}
}

// probe does inside what a shell cannot, and says how that went.
func probe(what string) string {
	switch what {
	case "ptrace":
		return outcome(unix.PtraceAttach(os.Getppid()))
	case "vm_readv":
		b := make([]byte, 8)
		_, err := unix.ProcessVMReadv(os.Getppid(), []unix.Iovec{{Base: &b[0], Len: 8}},
			[]unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&b[0])), Len: 8}}, 0)
		return outcome(err)
	case "pidfd_getfd":
		fd, err := unix.PidfdOpen(os.Getppid(), 0)
		if err != nil {
			return "pidfd_open: " + err.Error()
		}
		_, err = unix.PidfdGetfd(fd, 0, 0)
		return outcome(err)
	case "storm":
		return storm()
	}
	return "no such probe"
}

func outcome(err error) string {
	if err != nil {
		return err.Error()
	}
	return "done"
}

// storm sends its parent every signal that a process without privilege can, by
// kill and forged by rt_sigqueueinfo.
func storm() string {
	parent := os.Getppid()
	for sig := syscall.Signal(1); sig <= maxSignal; sig++ {
		if slices.Contains(passed, os.Signal(sig)) && sig != syscall.SIGWINCH {
			continue // comes back, and would end this process
		}
		syscall.Kill(parent, sig)
		info := [128]byte{}
		*(*int32)(unsafe.Pointer(&info[0])) = int32(sig)
		*(*int32)(unsafe.Pointer(&info[8])) = -1 // SI_QUEUE
		syscall.RawSyscall(syscall.SYS_RT_SIGQUEUEINFO, uintptr(parent), uintptr(sig), uintptr(unsafe.Pointer(&info)))
	}
	return "sent"
}

func asExecError(t *testing.T, err error) *ExecError {
	t.Helper()
	x, ok := errors.AsType[*ExecError](err)
	if !ok {
		t.Fatalf("error %v, want an ExecError", err)
	}
	return x
}
