//go:build unix

package dial

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/wire"
)

// runner starts an engine's process for go-plugin, and records its state.
type runner struct {
	cmd    *exec.Cmd
	log    engineLog
	exited chan struct{} // closed when the process is reaped
	stdout io.ReadCloser

	mu        sync.Mutex
	running   bool // there is a process, or was one
	killed    bool // also before there was one
	state     *os.ProcessState
	firstLine string
}

func newRunner(cmd *exec.Cmd) *runner {
	return &runner{cmd: cmd, exited: make(chan struct{}), log: engineLog{drained: make(chan struct{})}}
}

// Start starts the process from a thread that lives until the process is gone: the kernel sends
// Pdeathsig when the forking *thread* ends.
func (r *runner) Start(context.Context) error {
	stdoutRead, stdoutWrite, err1 := os.Pipe()
	stderrRead, stderrWrite, err2 := os.Pipe()
	if err := cmp.Or(err1, err2); err != nil {
		frame.CloseFiles([]*os.File{stdoutRead, stdoutWrite, stderrRead, stderrWrite})
		return err
	}
	r.cmd.Stdout, r.cmd.Stderr = stdoutWrite, stderrWrite

	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := r.cmd.Start()
		stdoutWrite.Close()
		stderrWrite.Close()
		started <- err
		if err != nil {
			return
		}
		r.reap()
		close(r.exited)
	}()
	if err := <-started; err != nil {
		stdoutRead.Close()
		stderrRead.Close()
		return err
	}
	r.mu.Lock()
	r.running = true
	killed := r.killed
	r.mu.Unlock()
	if killed {
		r.Kill(context.Background())
	}
	r.stdout = r.handshakeOnly(stdoutRead)
	r.log.file = stderrRead
	return nil
}

// handshakeOnly returns the first line of the process's output and drains the rest: an engine that
// prints must not block on a full pipe, and one that prints a line without end must not fill
// memory.
func (r *runner) handshakeOnly(stdout *os.File) io.ReadCloser {
	reader, writer := io.Pipe()
	go func() {
		defer stdout.Close()
		buffered := bufio.NewReaderSize(stdout, 4096)
		line, _ := buffered.ReadSlice('\n') // also after an error there is a part
		r.mu.Lock()
		r.firstLine = string(line)
		r.mu.Unlock()
		writer.Write(line)
		writer.Close()
		io.Copy(io.Discard, buffered)
	}()
	return reader
}

func (r *runner) started() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running
}

// gone reports whether the process has ended, even if it is not reaped yet.
func (r *runner) gone() bool {
	select {
	case <-r.exited:
		return true
	default:
	}
	ended := false
	err := r.cmd.Process.WithHandle(func(pidfd uintptr) { // some systems have no pidfd
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
		ended = n == 1 && err == nil
	})
	return ended || errors.Is(err, os.ErrProcessDone) // just reaped
}

// Wait waits for the process's end, and then ends the goroutine of go-plugin that called it. Otherwise
// this goroutine would sync our standard error next. If that is the file of a command's output, our
// own exit would wait until the disk has all of it.
func (r *runner) Wait(context.Context) error {
	<-r.exited
	runtime.Goexit()
	return nil
}

// Kill kills the process, as soon as there is one; its commands die with it.
func (r *runner) Kill(context.Context) error {
	r.mu.Lock()
	r.killed = true
	r.mu.Unlock()
	// The group: the engine's children in it hold its output.
	if err := r.signal(syscall.SIGKILL); err != os.ErrProcessDone {
		return err
	}
	return nil
}

// signal sends a signal to the process's group.
func (r *runner) signal(sig syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.running || r.state != nil {
		return os.ErrProcessDone
	}
	return syscall.Kill(-r.cmd.Process.Pid, sig)
}

func (r *runner) Stdout() io.ReadCloser { return r.stdout }
func (r *runner) Stderr() io.ReadCloser { return &r.log }
func (r *runner) Name() string          { return r.cmd.Path }

func (r *runner) ID() string {
	if !r.started() {
		return ""
	}
	return strconv.Itoa(r.cmd.Process.Pid)
}

// Diagnose is empty: explain says more.
func (r *runner) Diagnose(context.Context) string { return "" }

// PluginToHost and HostToPlugin: both use the same file system and network.
func (r *runner) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

func (r *runner) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}

// explain turns go-plugin's error into one that says what the engine did.
func (r *runner) explain(err error, timeout time.Duration) error {
	r.mu.Lock()
	first, state := strings.TrimSpace(r.firstLine), r.state
	r.mu.Unlock()
	if !r.started() {
		if _, missing := os.Stat("/proc/self"); missing != nil && runtime.GOOS == "linux" {
			return errors.New("could not be executed, because no /proc is mounted here: mount -t proc proc /proc")
		}
		if _, gone := os.Stat(r.cmd.Path); errors.Is(err, fs.ErrNotExist) && gone == nil {
			return fmt.Errorf("could not be executed, because the interpreter that its first line or its ELF header names does not exist: %w", err)
		}
		return fmt.Errorf("could not be executed: %w", err)
	}
	if strings.HasPrefix(err.Error(), "timeout while waiting for plugin") {
		state = nil // go-plugin has killed it for this
	} else if state == nil {
		// Its end, if it comes soon, says more than go-plugin does.
		select {
		case <-r.exited:
			r.mu.Lock()
			state = r.state
			r.mu.Unlock()
		case <-time.After(100 * time.Millisecond):
		}
	}
	fields := strings.Split(first, "|")
	switch {
	case first == "" && state != nil:
		return fmt.Errorf("ended before it was ready: %v", state)
	case first == "":
		return fmt.Errorf("did not report within %v that it is ready: it hangs, or is not an engine", timeout)
	case len(fields) < 5 || fields[0] != strconv.Itoa(plugin.CoreProtocolVersion) || fields[4] != string(plugin.ProtocolGRPC):
		return fmt.Errorf("does not speak the engine protocol: it printed %.80q", first)
	case fields[1] != strconv.Itoa(int(wire.Handshake.ProtocolVersion)):
		return fmt.Errorf("speaks engine protocol version %.20s, and this program version %d; install a matching release of either", fields[1], wire.Handshake.ProtocolVersion)
	}
	return err
}

// engineLog is an engine's log. It keeps the end.
type engineLog struct {
	file    *os.File
	drained chan struct{} // closed when all of it was read
	once    sync.Once

	mu  sync.Mutex
	end bytes.Buffer
}

// maxLog bounds the end that is kept, in bytes.
const maxLog = 8 << 10

func (l *engineLog) Read(b []byte) (int, error) {
	n, err := l.file.Read(b)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end.Write(b[:n])
	l.end.Next(max(0, l.end.Len()-maxLog))
	if err != nil {
		l.once.Do(func() { close(l.drained) })
	}
	return n, err
}

func (l *engineLog) Close() error { return l.file.Close() }

func (l *engineLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.ToValidUTF8(strings.TrimSpace(l.end.String()), "?")
}
