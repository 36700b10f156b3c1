package shared

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

// Launched is an engine in a process of its own. Its methods may be called from many
// goroutines at once. Once the process is gone, those of the Engine, and of what was
// opened by it, give ErrEngineLost.
type Launched struct {
	Engine  // as the process serves it
	client  *plugin.Client
	conn    grpc.ClientConnInterface
	channel *Channel
	cmd     *exec.Cmd
	dir     string
	end     func()
}

// startTimeout is how long an engine may take to say that it is ready.
const startTimeout = 10 * time.Second

// Launch starts an engine's program and connects to it. It is the least that
// works, for tests and tools: a host also verifies the program, keeps its log,
// hides its socket and starts it anew. The process gets the environment of cmd
// and nothing else but what the protocol needs. Kill must be called in the end.
//
// An engine that is not ready within ten seconds is killed. ctx covers the
// start alone. The error is ErrUnavailable, and quotes the end of what the engine has
// logged, or it is that of ctx.
func Launch(ctx context.Context, cmd *exec.Cmd, log hclog.Logger) (_ *Launched, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if log == nil {
		log = hclog.NewNullLogger()
	}
	channel, engineEnd, err := NewChannel()
	if err != nil {
		return nil, err
	}
	defer engineEnd.Close()
	// Short: the path of a socket has little room.
	dir, err := os.MkdirTemp("", RuntimeDirPrefix)
	if err != nil {
		channel.Close()
		return nil, err
	}
	// Hosts remove such a directory when nobody has locked it.
	inUse, err := os.Open(dir)
	if err != nil {
		channel.Close()
		os.RemoveAll(dir)
		return nil, err
	}
	_ = syscall.Flock(int(inUse.Fd()), syscall.LOCK_SH)
	// go-plugin takes a directory from its configuration for a RunnerFunc only.
	// Without one, the socket of an engine that is killed would stay in /tmp.
	sockets, err := os.MkdirTemp(dir, "plugin-dir")
	if err != nil {
		channel.Close()
		os.RemoveAll(dir)
		inUse.Close()
		return nil, err
	}
	// go-plugin's start knows no context: what ends it early is the process's end.
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	given := cmd
	cmd = exec.CommandContext(life, given.Path)
	cmd.Args, cmd.Dir, cmd.SysProcAttr, cmd.Err = given.Args, given.Dir, given.SysProcAttr, given.Err
	cmd.ExtraFiles = append(slices.Clip(given.ExtraFiles), engineEnd)
	cmd.Env = append(slices.Clone(given.Env), channel.Env(2+len(cmd.ExtraFiles))...)
	cmd.Env = append(cmd.Env, plugin.EnvUnixSocketDir+"="+sockets)
	config := ClientConfig(channel)
	if cmd.SysProcAttr == nil {
		// As a host does: what is typed at the terminal of a test is not the engine's.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	logged := &logEnd{}
	config.Cmd, config.Logger, config.StartTimeout, config.Stderr = cmd, log, startTimeout, logged
	l := &Launched{client: plugin.NewClient(config), channel: channel, cmd: cmd, dir: dir}
	l.end = sync.OnceFunc(func() {
		l.client.Kill()
		kill()
		l.channel.Close()
		os.RemoveAll(l.dir)
		inUse.Close()
	})
	stop := context.AfterFunc(ctx, kill)
	protocol, err := l.client.Client()
	if !stop() {
		err = ctx.Err()
	}
	var raw any
	if err == nil {
		raw, err = protocol.Dispense(PluginName)
	}
	if err != nil {
		l.end()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		// The rest is advice for those who have built a plugin for another machine.
		why, _, _ := strings.Cut(err.Error(), "\n")
		if text := logged.String(); text != "" {
			why += "; it logged: " + text
		}
		return nil, &Error{Kind: ErrUnavailable, Attribute: "engine", Message: fmt.Sprintf("%s: %s", cmd.Path, strings.TrimSpace(why))}
	}
	engine, ok := raw.(Engine)
	if !ok {
		l.end()
		return nil, errors.New("what was dispensed is no engine")
	}
	l.Engine = engine
	if c, ok := protocol.(*plugin.GRPCClient); ok {
		l.conn = c.Conn
	}
	return l, nil
}

// logEnd keeps the end of what an engine writes to its standard error.
type logEnd struct {
	mu   sync.Mutex
	text []byte
}

func (l *logEnd) Write(p []byte) (int, error) {
	const limit = 2 << 10
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if over := len(l.text) - limit; over > 0 {
		l.text = append(l.text[:0], l.text[over:]...)
	}
	return len(p), nil
}

func (l *logEnd) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.ToValidUTF8(strings.TrimSpace(string(l.text)), "?")
}

// Process is the engine's process, to be signalled. Only Kill may wait for it.
func (l *Launched) Process() *os.Process { return l.cmd.Process }

// Disconnect does to the engine what the sudden death of its host does, but for
// the connection itself: the channel ends.
func (l *Launched) Disconnect() { l.channel.Close() }

// Exited reports whether the engine's process has ended.
func (l *Launched) Exited() bool { return l.client.Exited() }

// Kill ends the engine, and with it its commands, and removes what Launch has made.
// It returns when the process is gone. Further calls do nothing.
func (l *Launched) Kill() { l.end() }
