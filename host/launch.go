package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"

	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/shared"
)

// maxSocketPath is what sockaddr_un holds on every platform, with its NUL.
const maxSocketPath = 104

// socketName is as long as what go-plugin makes below its base directory:
// "plugin-dir" and "plugin", each with a random uint32.
const socketName = "/plugin-dir4294967295/plugin4294967295"

// launchSpec is an engine's executable and how to start it.
type launchSpec struct {
	name   string
	path   string // absolute
	source string // for people: "built in", the path
	// declared says that the user chose it in place of what is built in.
	declared bool
	self     bool     // this program itself, re-executed
	pinned   bool     // checksums are declared, if not for this platform
	sha256   string   // what the executable must have; empty means any
	args     []string // beyond argv[0]
	env      []string // "name=value": all that the process sees of the host's environment
}

// unpinned refuses an engine whose checksums are declared for other platforms
// alone.
func (s *launchSpec) unpinned() error {
	if s.pinned && s.sha256 == "" {
		return view.Invalid("engine."+s.name+".sha256", "no checksum is pinned for "+Platform(),
			"check the engine and pin it with `sbxhost engines pin "+s.name+"`")
	}
	return nil
}

// engineProcess is an engine that runs in a process of its own.
type engineProcess struct {
	runner   *engineRunner
	channel  *shared.Channel
	protocol plugin.ClientProtocol // nil until it was spoken to
	engine   shared.Engine
	dir      string
}

// launch starts an engine and speaks to it. Every error is an *EngineError.
func launch(ctx context.Context, spec launchSpec, timeout time.Duration, logger hclog.Logger) (_ *engineProcess, err error) {
	defer func() {
		if err != nil && !errors.As(err, new(*EngineError)) {
			err = &EngineError{Engine: spec.name, Source: spec.source, Err: err}
		}
	}()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dir, inUse, err := privateDir()
	if err != nil {
		return nil, err
	}
	defer inUse.Close()
	channel, engineEnd, err := shared.NewChannel()
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	var pinned *os.File
	if spec.sha256 != "" {
		if pinned, err = openPinned(spec.path, spec.sha256); err != nil {
			channel.Close()
			engineEnd.Close()
			os.RemoveAll(dir)
			return nil, err
		}
		defer pinned.Close()
	}
	run := &engineRunner{spec: spec, dir: dir, pinned: pinned, channel: engineEnd, channelEnv: channel.Env(3), log: &tail{}, exited: make(chan struct{}), drained: make(chan struct{})}
	config := shared.ClientConfig(channel)
	config.StartTimeout = timeout
	config.Logger = logger
	config.UnixSocketConfig = &plugin.UnixSocketConfig{TempDir: dir}
	config.RunnerFunc = func(_ hclog.Logger, cmd *exec.Cmd, _ string) (runner.Runner, error) {
		run.env = cmd.Env // go-plugin's handshake variables alone: SkipHostEnv
		return run, nil
	}
	client := plugin.NewClient(config)
	p := &engineProcess{runner: run, channel: channel, dir: dir}

	// go-plugin's start knows no context: its end kills the process, which
	// ends the start.
	go shared.Rehearse() // while it starts
	stop := context.AfterFunc(ctx, func() { run.Kill(context.Background()) })
	_, err = client.Start()
	engineEnd.Close()
	if err == nil {
		err = p.dispense(client, timeout)
	}
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		reason := run.explain(err, timeout)
		p.stop()
		if ctx.Err() != nil {
			reason = ctx.Err()
		}
		return nil, &EngineError{Engine: spec.name, Source: spec.source, Err: reason, Log: run.lastWords()}
	}
	// The connection stands, and nobody else is to make one: a command that sees
	// this directory, by a bind of /tmp say, could ask the engine for a sandbox
	// of its own choice. It is also one thing less for a killed host to leave.
	os.RemoveAll(dir)
	return p, nil
}

// dispense speaks to the engine for the first time, of which go-plugin waits for
// some longer than any engine may take.
func (p *engineProcess) dispense(client *plugin.Client, timeout time.Duration) (err error) {
	late := time.AfterFunc(timeout, func() { p.runner.Kill(context.Background()) })
	defer func() {
		if !late.Stop() { // err may be nil: go-plugin does without its services
			err = errMute(timeout)
		}
	}()
	if p.protocol, err = client.Client(); err != nil {
		return err
	}
	raw, err := p.protocol.Dispense(shared.PluginName)
	if err != nil {
		return err
	}
	p.engine = raw.(shared.Engine)
	return nil
}

// errMute is for an engine that listens, and answers nothing.
func errMute(timeout time.Duration) error {
	return fmt.Errorf("said that it is ready, and did not answer within %v: it hangs", timeout)
}

// alive reports whether the engine's process still runs.
func (p *engineProcess) alive() bool {
	select {
	case <-p.runner.exited:
		return false
	default:
		return true
	}
}

// leave asks the engine to end by itself, and gives it that long. The end of its process
// frees all that it has, but leaves processes of its own to whoever is pid 1, which may
// reap nothing.
func (p *engineProcess) leave(patience time.Duration) {
	if p.runner.signal(syscall.SIGTERM) != nil {
		return
	}
	select {
	case <-p.runner.exited:
	case <-time.After(patience):
	}
}

// stop kills the engine.
func (p *engineProcess) stop() {
	p.runner.Kill(context.Background())
	if client, ok := p.protocol.(*plugin.GRPCClient); ok {
		client.Conn.Close()
	}
	p.channel.Close()
	if p.runner.started() {
		select {
		case <-p.runner.exited:
		case <-time.After(closeTimeout): // the kernel holds it
		}
	}
	os.RemoveAll(p.dir)
}

// privateDir makes a directory that only this user can enter, for sockets that
// carry no credentials of their own. It is in use for as long as the file that
// comes with it is open.
func privateDir() (dir string, inUse *os.File, err error) {
	var errs []error
	bases := []string{"/tmp"}
	if temp := os.TempDir(); filepath.IsAbs(temp) {
		bases = slices.Insert(bases, 0, temp)
	}
	if runtimeDir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(runtimeDir) {
		if info, err := os.Stat(runtimeDir); err == nil && info.IsDir() && ownedPrivately(info) {
			bases = slices.Insert(bases, 0, runtimeDir)
		}
	}
	if rand.N(sweepOneIn) == 0 {
		go sweepPrivateDirs(bases)
	} else if len(bases) > 0 && bases[0] == os.Getenv("XDG_RUNTIME_DIR") {
		go sweepPrivateDirs(bases[:1]) // which is short
	}
	const random = len("4294967295")
	for _, base := range bases {
		if len(base)+len("/"+shared.RuntimeDirPrefix)+random+len(socketName) < maxSocketPath {
			dir, err := os.MkdirTemp(base, shared.RuntimeDirPrefix)
			if err == nil {
				inUse, err = os.Open(dir)
			}
			if err == nil {
				_ = syscall.Flock(int(inUse.Fd()), syscall.LOCK_SH) // what cannot be locked is kept for longer
				return dir, inUse, nil
			}
			errs = append(errs, err)
		}
	}
	return "", nil, fmt.Errorf("private directory for the engine's socket: %w; set TMPDIR to a directory that you can write to", errors.Join(errs...))
}

// A private directory that nobody has locked is stale when it is this old: the
// one of a host, which locks it as soon as it has made it and until it is
// connected, and one that an engine has made for what it starts.
const (
	staleAfter       = time.Minute
	staleEngineAfter = time.Hour
)

// sweepOneIn is how many starts there are to a sweep: it reads the whole of /tmp,
// and there is hardly ever anything to remove.
const sweepOneIn = 50

// sweepPrivateDirs removes what hosts that were killed at that moment have left.
func sweepPrivateDirs(bases []string) {
	for i, base := range bases {
		entries, err := os.ReadDir(base)
		if err != nil || slices.Contains(bases[:i], base) {
			continue
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), shared.RuntimeDirPrefix) || !e.IsDir() {
				continue
			}
			info, err := e.Info()
			if err != nil || !ownedPrivately(info) {
				continue
			}
			dir := filepath.Join(base, e.Name())
			if time.Since(info.ModTime()) < staleAge(dir) || locked(dir) {
				continue
			}
			// Nothing but sockets and the directory that go-plugin makes for them:
			// whatever else has such a name stays.
			nested, _ := os.ReadDir(dir)
			for _, n := range nested {
				sockets, _ := os.ReadDir(filepath.Join(dir, n.Name()))
				for _, socket := range sockets {
					if socket.Type() == fs.ModeSocket {
						os.Remove(filepath.Join(dir, n.Name(), socket.Name()))
					}
				}
				os.Remove(filepath.Join(dir, n.Name()))
			}
			os.Remove(dir)
		}
	}
}

// staleAge is staleAfter for a directory that has but what go-plugin makes.
func staleAge(dir string) time.Duration {
	entries, err := os.ReadDir(dir)
	if err != nil || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !strings.HasPrefix(e.Name(), "plugin-dir") }) {
		return staleEngineAfter
	}
	return staleAfter
}

// locked reports whether somebody uses a private directory.
func locked(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// engineRunner starts an engine's process for go-plugin.
type engineRunner struct {
	spec       launchSpec
	dir        string   // private
	pinned     *os.File // the verified executable; nil means whatever is at the path
	env        []string
	channel    *os.File // the engine's end
	channelEnv []string
	log        *tail

	stdout, stderr io.ReadCloser
	exited         chan struct{} // closed when the process is reaped
	drained        chan struct{} // closed when all that it logged was read

	mu        sync.Mutex
	cmd       *exec.Cmd
	killed    bool // also before there was a process
	state     *os.ProcessState
	firstLine string
}

// Start starts the process from a thread that lives until the process is
// gone: the kernel sends Pdeathsig when the forking *thread* ends.
func (r *engineRunner) Start(context.Context) error {
	cmd := &exec.Cmd{
		Path:        r.spec.path,
		Args:        append([]string{r.spec.path}, r.spec.args...),
		ExtraFiles:  []*os.File{r.channel},
		SysProcAttr: engineSysProcAttr(),
	}
	if r.pinned != nil {
		path, inherit, err := pinnedExecutable(r.pinned, 3+len(cmd.ExtraFiles), r.dir)
		if err != nil {
			return err
		}
		if cmd.Path = path; inherit {
			cmd.ExtraFiles = append(cmd.ExtraFiles, r.pinned)
		}
	}
	// Ours come last: package exec keeps the last of duplicates, so that an engine
	// block sets the number of processors and nothing by which we speak to it.
	cmd.Env = slices.Concat([]string{shared.OneProcessor}, r.spec.env, r.env, r.channelEnv)
	stdoutRead, stdoutWrite, err := os.Pipe()
	if err != nil {
		return err
	}
	stderrRead, stderrWrite, err := os.Pipe()
	if err != nil {
		stdoutRead.Close()
		stdoutWrite.Close()
		return err
	}
	cmd.Stdout, cmd.Stderr = stdoutWrite, stderrWrite

	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := cmd.Start()
		stdoutWrite.Close()
		stderrWrite.Close()
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait()
		r.mu.Lock()
		r.state = cmd.ProcessState
		r.mu.Unlock()
		close(r.exited)
	}()
	if err := <-started; err != nil {
		stdoutRead.Close()
		stderrRead.Close()
		return err
	}
	r.mu.Lock()
	r.cmd = cmd
	killed := r.killed
	r.mu.Unlock()
	if killed {
		r.Kill(context.Background())
	}
	r.stdout = r.handshakeOnly(stdoutRead)
	r.stderr = &logReader{file: stderrRead, tail: r.log, drained: r.drained}
	return nil
}

// handshakeOnly gives the first line of the process's output and drains the
// rest: an engine that prints must not block on a full pipe, and one that
// prints a line without end must not fill memory.
func (r *engineRunner) handshakeOnly(stdout *os.File) io.ReadCloser {
	reader, writer := io.Pipe()
	go func() {
		defer stdout.Close()
		buffered := bufio.NewReaderSize(stdout, 4096)
		line, _ := buffered.ReadSlice('\n') // an error still gives what was read
		r.mu.Lock()
		r.firstLine = string(line)
		r.mu.Unlock()
		writer.Write(line)
		writer.Close()
		io.Copy(io.Discard, buffered)
	}()
	return reader
}

func (r *engineRunner) started() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cmd != nil
}

// Wait waits for the process to be reaped.
func (r *engineRunner) Wait(context.Context) error {
	<-r.exited
	return nil
}

// Kill kills the process, as soon as there is one; its commands die with it.
func (r *engineRunner) Kill(context.Context) error {
	r.mu.Lock()
	r.killed = true
	r.mu.Unlock()
	// The group: what an engine has started and left in it holds its output.
	if err := r.signal(syscall.SIGKILL); err != os.ErrProcessDone {
		return err
	}
	return nil
}

// signal sends a signal to the process's group.
func (r *engineRunner) signal(sig syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil || r.state != nil {
		return os.ErrProcessDone
	}
	return syscall.Kill(-r.cmd.Process.Pid, sig)
}

func (r *engineRunner) Stdout() io.ReadCloser { return r.stdout }
func (r *engineRunner) Stderr() io.ReadCloser { return r.stderr }
func (r *engineRunner) Name() string          { return r.spec.path }

func (r *engineRunner) ID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil {
		return ""
	}
	return strconv.Itoa(r.cmd.Process.Pid)
}

// Diagnose is go-plugin's question for more; explain says it better.
func (r *engineRunner) Diagnose(context.Context) string { return "" }

// PluginToHost and HostToPlugin: both live in one file system and network.
func (r *engineRunner) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

func (r *engineRunner) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}

// explain turns go-plugin's error into one that says what the engine did.
func (r *engineRunner) explain(err error, timeout time.Duration) error {
	r.mu.Lock()
	first, state := strings.TrimSpace(r.firstLine), r.state
	r.mu.Unlock()
	if !r.started() {
		if _, missing := os.Stat("/proc/self"); missing != nil && runtime.GOOS == "linux" {
			return errors.New("could not be executed, because no /proc is mounted here: mount -t proc proc /proc")
		}
		return fmt.Errorf("could not be executed: %w", err)
	}
	if strings.HasPrefix(err.Error(), "timeout while waiting for plugin") {
		state = nil // go-plugin has killed it for this
	} else if state == nil {
		// Its end, if it is about to come, says more than go-plugin does.
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
		return fmt.Errorf("did not say that it is ready within %v: it hangs, or is no engine", timeout)
	case len(fields) < 4 || !isNumber(fields[0]) || !isNumber(fields[1]):
		return fmt.Errorf("does not speak the engine protocol: it printed %q", clip(first, 80))
	case fields[0] != strconv.Itoa(plugin.CoreProtocolVersion):
		return fmt.Errorf("speaks version %s of go-plugin's handshake, and this program version %d; install a matching release of either", clip(fields[0], 20), plugin.CoreProtocolVersion)
	case fields[1] != strconv.Itoa(int(shared.Handshake.ProtocolVersion)):
		return fmt.Errorf("speaks engine protocol version %s, and this program version %d; install a matching release of either", clip(fields[1], 20), shared.Handshake.ProtocolVersion)
	case len(fields) < 5 || fields[4] != string(plugin.ProtocolGRPC):
		return fmt.Errorf("does not speak gRPC, which is what engines speak: it printed %q", clip(first, 80))
	}
	return err
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 32)
	return err == nil
}

// clip shortens text that an engine chose.
func clip(s string, n int) string {
	if len(s) > n {
		return s[:n] + "..."
	}
	return s
}

// logReader is an engine's log, the end of which it keeps.
type logReader struct {
	file    *os.File
	tail    *tail
	drained chan struct{}
	once    sync.Once
}

func (l *logReader) Read(b []byte) (int, error) {
	n, err := l.file.Read(b)
	l.tail.Write(b[:n])
	if err != nil {
		l.once.Do(func() { close(l.drained) })
	}
	return n, err
}

func (l *logReader) Close() error { return l.file.Close() }

// lastWords is the end of what a process that is gone has logged. Somebody that
// it started may hold the log open, hence the bound.
func (r *engineRunner) lastWords() string {
	select {
	case <-r.drained:
	case <-time.After(200 * time.Millisecond):
	}
	return r.log.String()
}

// tail keeps the end of what an engine logs.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(strings.TrimSpace(string(t.buf)), "?")
}
