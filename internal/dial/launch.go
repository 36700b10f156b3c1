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
	"slices"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	goplugin "github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"

	"github.com/sbxhost/sbxhost/internal/wire"
	"github.com/sbxhost/sbxhost/shared"
)

// LaunchOptions say how an engine's program is launched. The zero value is what most
// need.
type LaunchOptions struct {
	// StartTimeout is how long the engine may take to say that it is ready, and as long
	// to answer for the first time. Zero is ten seconds.
	StartTimeout time.Duration
	// Logger is given what the engine logs. Nil discards it.
	Logger hclog.Logger
	// SocketDirs are absolute directories to have the engine's socket in, by preference,
	// before /tmp.
	SocketDirs []string
	// KeepSocket leaves the file of the engine's socket until Kill, for a kit that tries
	// what an engine makes of strangers.
	KeepSocket bool
}

// Process is an engine in a process of its own. Its methods may be called from many
// goroutines at once. Once the process is gone, those of the Engine, and of what was
// opened by it, give ErrEngineLost.
type Process struct {
	shared.Engine
	Conn    grpc.ClientConnInterface // by which the engine is called
	Address net.Addr                 // of the engine's socket

	runner   *runner
	channel  *Channel
	protocol *plugin.GRPCClient // nil until it was spoken to
	dir      string
}

// LaunchError says why an engine's program could not be started.
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

// Unwrap gives the cause.
func (e *LaunchError) Unwrap() error { return e.Err }

// killTimeout bounds the wait for a process that was killed: the kernel may hold it.
const killTimeout = 5 * time.Second

// Launch starts an engine's program and connects to it. Of cmd it takes the path, the
// arguments, the environment, the directory and ExtraFiles. The process gets that
// environment and nothing else but what the protocol needs, a process group of its own,
// and one more descriptor. Kill must be called in the end; the process ends, too, when
// this one does.
//
// ctx covers the start alone. The error is a *LaunchError or that of ctx.
func Launch(ctx context.Context, cmd *exec.Cmd, o LaunchOptions) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	timeout := cmp.Or(o.StartTimeout, DefaultStartTimeout)
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	dir, err := privateDir(o.SocketDirs)
	if err != nil {
		return nil, &LaunchError{Err: err}
	}
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
		Plugins:          plugin.PluginSet{}, // the engine's calls are made on the connection
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		GRPCDialOptions:  append(dialOptions(), grpc.WithPerRPCCredentials(token)),
		SkipHostEnv:      true,
		StartTimeout:     timeout,
		Logger:           o.Logger,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: dir},
		RunnerFunc: func(_ hclog.Logger, pluginCmd *exec.Cmd, _ string) (goplugin.Runner, error) {
			// Ours come last: package exec keeps the last of duplicates, so that the caller
			// sets the number of processors and nothing by which we speak to the engine.
			l.runner.cmd.Env = slices.Concat([]string{wire.ProcessorsEnv + "=1"}, cmd.Env, pluginCmd.Env,
				[]string{channel.Env(2 + len(l.runner.cmd.ExtraFiles)), wire.TokenEnv + "=" + string(token)})
			return l.runner, nil
		},
	}
	// go-plugin's start knows no context: its end kills the process, which
	// ends the start.
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
		// The connection stands, and nobody else is to make one. It is also one thing
		// less for a killed host to leave.
		os.RemoveAll(dir)
	}
	return l, nil
}

// connect speaks to the engine for the first time, of which go-plugin waits for
// some longer than any engine may take.
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
	l.protocol = protocol.(*plugin.GRPCClient) // the one protocol that is allowed
	l.Conn = l.protocol.Conn
	l.Engine = New(l.Conn, l.channel)
	return nil
}

// NoAnswer is for an engine that listens, and answers nothing.
func NoAnswer(timeout time.Duration) error {
	return fmt.Errorf("said that it is ready, and did not answer within %v: it hangs", timeout)
}

// Ping returns when the engine has answered, or is gone.
func (l *Process) Ping() { _ = l.protocol.Ping() }

// Pid is the number of the engine's process.
func (l *Process) Pid() int { return l.runner.cmd.Process.Pid }

// Signal sends a signal to the engine and what it has left in its process group. The
// error is [os.ErrProcessDone] if the engine has ended.
func (l *Process) Signal(sig syscall.Signal) error { return l.runner.signal(sig) }

// Disconnect does to the engine what the sudden death of its host does, but for
// the connection itself: the channel ends.
func (l *Process) Disconnect() { l.channel.Close() }

// Gone reports whether the engine's process has ended: sooner than Exited, which is closed
// when all is known of it.
func (l *Process) Gone() bool { return l.runner.gone() }

// Exited is closed when the engine's process has ended.
func (l *Process) Exited() <-chan struct{} { return l.runner.exited }

// State is how the engine's process has ended; nil while it runs.
func (l *Process) State() *os.ProcessState {
	l.runner.mu.Lock()
	defer l.runner.mu.Unlock()
	return l.runner.state
}

// Log is the end of what a process that is gone has logged. Somebody that it started may
// hold the log open, hence the bound.
func (l *Process) Log() string {
	select {
	case <-l.runner.drained:
	case <-time.After(200 * time.Millisecond):
	}
	return l.runner.log.String()
}

// Leave asks the engine to end by itself, and gives it that long. The end of its process
// frees all that it has, but leaves processes of its own to whoever is pid 1, which may
// reap nothing.
func (l *Process) Leave(patience time.Duration) {
	if l.Signal(syscall.SIGTERM) != nil {
		return
	}
	select {
	case <-l.Exited():
	case <-time.After(patience):
	}
}

// Kill ends the engine, and with it its commands, and removes what Launch has made.
// It returns when the process is gone. Further calls do nothing.
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

// Attach connects to an engine that was started with -debug. It outlives the connection,
// which the caller closes; sandboxes opened by it do not. The error is ErrEngineLost
// where there is none.
func Attach(ctx context.Context, r wire.Reattach) (engine shared.Engine, disconnect func(), err error) {
	socket, err := (&net.Dialer{}).DialContext(ctx, "unix", r.ChannelSocket())
	if err != nil {
		return nil, nil, &shared.Error{Kind: shared.ErrEngineLost, Message: err.Error()}
	}
	channel := newChannel(socket.(*net.UnixConn))
	conn, err := connectTo(r.Socket, callToken(r.Token))
	if err != nil {
		channel.Close()
		return nil, nil, err
	}
	return New(conn, channel), func() {
		conn.Close()
		channel.Close()
	}, nil
}
