//go:build unix

package dial

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	goplugin "github.com/hashicorp/go-plugin/runner"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/wire"
	"github.com/sbxhost/sbxhost/shared"
)

// LaunchOptions say how to launch an engine's program. The zero value is right for most.
type LaunchOptions struct {
	// StartTimeout is how long the engine may take to report that it is ready, and then for its
	// first answer. Zero is ten seconds.
	StartTimeout time.Duration
	// Logger receives the engine's logs. Nil discards them.
	Logger hclog.Logger
	// SocketDirs are directories for the engine's socket, in this order, before /tmp.
	SocketDirs []string
	// KeepSocket leaves the file of the engine's socket until Kill, for a kit that tests strangers'
	// connections.
	KeepSocket bool
}

// Process is an engine in a process of its own. Many goroutines may call its methods at once. After
// the process's end, the methods of the Engine, and of all that it has opened, return
// ErrEngineLost.
type Process struct {
	shared.Engine
	Conn    grpc.ClientConnInterface // for calls to the engine
	Address net.Addr                 // of the engine's socket

	runner   *runner
	channel  *Channel
	protocol *plugin.GRPCClient // nil until the first answer
	dir      string
}

// LaunchError says why an engine's program did not start.
type LaunchError struct {
	Err error  // the cause
	Log string // the end of what it logged, up to 8 KiB
}

func (e *LaunchError) Error() string {
	if e.Log == "" {
		return e.Err.Error()
	}
	return e.Err.Error() + "; it logged: " + e.Log
}

// Unwrap returns the cause.
func (e *LaunchError) Unwrap() error { return e.Err }

// socketName has the length of go-plugin's names, "plugin-dir" and "plugin", each with a random uint32.
const socketName = "/plugin-dir4294967295/plugin4294967295"

// killTimeout bounds the wait for a killed process: the kernel may hold it.
const killTimeout = 5 * time.Second

// Launch starts an engine's program and connects to it. It uses cmd's path, arguments, environment,
// directory and ExtraFiles. The process gets that environment, what the protocol needs, a process
// group of its own, and one more descriptor, and nothing else. Call Kill at the end; the process
// also ends with this one.
//
// ctx covers only the start. The error is a *LaunchError or that of ctx.
func Launch(ctx context.Context, cmd *exec.Cmd, o LaunchOptions) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	timeout := cmp.Or(o.StartTimeout, DefaultStartTimeout)
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	dir, err := wire.PrivateDir(o.SocketDirs, socketName)
	if err != nil {
		return nil, &LaunchError{Err: err}
	}
	sweep(filepath.Dir(dir))
	channel, engineEnd, err := NewChannel()
	if err != nil {
		os.RemoveAll(dir)
		return nil, &LaunchError{Err: err}
	}
	defer engineEnd.Close()
	token := callToken(rand.Text())
	l := &Process{channel: channel, dir: dir, runner: newRunner(&exec.Cmd{
		Path:        cmd.Path,
		Args:        cmd.Args,
		Dir:         cmd.Dir,
		ExtraFiles:  append(slices.Clip(cmd.ExtraFiles), engineEnd),
		SysProcAttr: engineSysProcAttr(),
	})}
	config := &plugin.ClientConfig{
		HandshakeConfig:  plugin.HandshakeConfig(wire.Handshake),
		Plugins:          plugin.PluginSet{}, // calls use the connection directly
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		GRPCDialOptions:  append(dialOptions(), grpc.WithPerRPCCredentials(token), grpc.WithContextDialer(l.dial)),
		SkipHostEnv:      true,
		StartTimeout:     timeout,
		Logger:           o.Logger,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: dir},
		RunnerFunc: func(_ hclog.Logger, pluginCmd *exec.Cmd, _ string) (goplugin.Runner, error) {
			// Ours come last: package exec keeps the last of duplicates, so the caller can set the
			// number of processors, but nothing of our protocol.
			l.runner.cmd.Env = slices.Concat([]string{wire.ProcessorsEnv + "=1"}, cmd.Env, pluginCmd.Env,
				[]string{channel.Env(2 + len(l.runner.cmd.ExtraFiles)), wire.TokenEnv + "=" + string(token)})
			return l.runner, nil
		},
	}
	// go-plugin's start has no context: the end of ctx kills the process, which ends the start.
	stop := context.AfterFunc(ctx, func() { l.runner.Kill(context.Background()) })
	client := plugin.NewClient(config)
	l.Address, err = client.Start()
	engineEnd.Close()
	if err == nil {
		err = l.connect(client, timeout)
	}
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		reason := l.runner.explain(err, timeout)
		l.Kill()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &LaunchError{Err: reason, Log: l.Log()}
	}
	if !o.KeepSocket {
		// The connection exists, and nobody else may make one. A killed host then leaves one file
		// less.
		os.RemoveAll(dir)
	}
	return l, nil
}

// sweep removes, of the directories for sockets in base, those that hosts have left which were killed before
// they had connected. A directory is in use for the time of a start, or, with KeepSocket, of a test. Somebody's
// project can have such a name too, in which a command makes what looks left: only empty files and directories go.
func sweep(base string) {
	left, _ := filepath.Glob(filepath.Join(base, wire.TempDirPrefix+"[0-9]*", "plugin-dir[0-9]*"))
	for _, dir := range left {
		info, err := os.Lstat(dir)
		// A command, or another user, can have put symlinks there.
		if err != nil || time.Since(info.ModTime()) <= time.Hour || hostpath.CheckPrivate(filepath.Dir(dir)) != nil || hostpath.CheckPrivate(dir) != nil {
			continue
		}
		sockets, _ := filepath.Glob(filepath.Join(dir, "plugin[0-9]*"))
		for _, socket := range sockets {
			if info, err := os.Lstat(socket); err == nil && info.Size() == 0 {
				os.Remove(socket)
			}
		}
		os.Remove(dir)
		os.Remove(filepath.Dir(dir))
	}
}

// dial connects to the engine, and to nobody else: who can write in one of SocketDirs can have put a socket
// of its own there, and would get the token, which opens any sandbox, and the secrets of commands.
func (l *Process) dial(ctx context.Context, _ string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, l.Address.Network(), l.Address.String())
	if err != nil {
		return nil, err
	}
	if socket, ok := conn.(*net.UnixConn); ok {
		if err := l.checkListener(socket); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

func (l *Process) checkListener(socket *net.UnixConn) error {
	var pid int
	err := frame.Control(socket, func(fd int) (err error) {
		pid, err = listenerOf(fd)
		return err
	})
	if err != nil {
		return err
	}
	if group, err := unix.Getpgid(pid); err != nil || group != l.Pid() {
		return fmt.Errorf("process %d has put another socket in the place of the engine's", pid)
	}
	return nil
}

// connect makes the first call. go-plugin waits longer for some calls than any engine may take.
func (l *Process) connect(client *plugin.Client, timeout time.Duration) (err error) {
	late := time.AfterFunc(timeout, func() { l.runner.Kill(context.Background()) })
	defer func() {
		if !late.Stop() { // err may be nil: go-plugin does without its services
			err = NoAnswer(timeout)
		}
	}()
	protocol, err := client.Client()
	if err != nil {
		return err
	}
	l.protocol = protocol.(*plugin.GRPCClient) // the only allowed protocol
	l.Conn = l.protocol.Conn
	l.Engine = New(l.Conn, l.channel)
	return nil
}

// NoAnswer is the error for an engine that listens, and answers nothing.
func NoAnswer(timeout time.Duration) error {
	return fmt.Errorf("reported that it is ready, and did not answer within %v: it hangs", timeout)
}

// Ping returns when the engine has answered, or is gone.
func (l *Process) Ping() { _ = l.protocol.Ping() }

// Pid is the number of the engine's process.
func (l *Process) Pid() int { return l.runner.cmd.Process.Pid }

// Signal sends a signal to the engine and its process group. The error is [os.ErrProcessDone] if
// the engine has ended.
func (l *Process) Signal(sig syscall.Signal) error { return l.runner.signal(sig) }

// Disconnect closes the channel, like the sudden death of the host, but not the connection.
func (l *Process) Disconnect() { l.channel.Close() }

// Gone reports whether the engine's process has ended. Exited closes a little later, when all about
// it is known.
func (l *Process) Gone() bool { return l.runner.gone() }

// Exited is closed when the engine's process has ended.
func (l *Process) Exited() <-chan struct{} { return l.runner.exited }

// State is how the engine's process has ended; nil while it runs.
func (l *Process) State() *os.ProcessState {
	l.runner.mu.Lock()
	defer l.runner.mu.Unlock()
	return l.runner.state
}

// Log is the end of the log of a process that is gone. Its children may hold the log open, so the
// wait has a bound.
func (l *Process) Log() string {
	select {
	case <-l.runner.log.drained:
	case <-time.After(200 * time.Millisecond):
	}
	return l.runner.log.String()
}

// Leave asks the engine to end by itself, and gives it that long. The end of its process frees its
// resources, but pid 1 inherits its children, and may reap nothing.
func (l *Process) Leave(patience time.Duration) {
	if l.Signal(syscall.SIGTERM) != nil {
		return
	}
	select {
	case <-l.Exited():
	case <-time.After(patience):
	}
}

// Kill ends the engine with its commands, and removes what Launch has made. It returns when the
// process is gone. Further calls do nothing.
func (l *Process) Kill() {
	l.runner.Kill(context.Background())
	if l.protocol != nil {
		l.protocol.Conn.Close()
	}
	l.channel.Close()
	if l.runner.started() {
		select {
		case <-l.Exited():
		case <-time.After(killTimeout):
		}
	}
	os.RemoveAll(l.dir)
}
