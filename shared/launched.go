package shared

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
)

// Launched is an engine in a process of its own.
type Launched struct {
	Engine
	client  *plugin.Client
	channel *Channel
	cmd     *exec.Cmd
	dir     string
	end     func()
}

// Launch starts an engine's program and connects to it. It is the least that
// works, for tests and tools: a host also verifies the program, keeps its log,
// hides its socket and starts it anew. The process gets the environment of cmd
// and nothing else but what the protocol needs. Kill must be called in the end.
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
	cmd.ExtraFiles = append(cmd.ExtraFiles, engineEnd)
	cmd.Env = append(append([]string{}, cmd.Env...), channel.Env(2+len(cmd.ExtraFiles))...)
	cmd.Env = append(cmd.Env, plugin.EnvUnixSocketDir+"="+sockets)
	config := ClientConfig(channel)
	config.Cmd, config.Logger = cmd, log
	l := &Launched{client: plugin.NewClient(config), channel: channel, cmd: cmd, dir: dir}
	l.end = sync.OnceFunc(func() {
		l.client.Kill()
		l.channel.Close()
		os.RemoveAll(l.dir)
		inUse.Close()
	})
	stop := context.AfterFunc(ctx, l.client.Kill)
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
		return nil, &Error{Kind: ErrUnavailable, Attribute: "engine", Message: fmt.Sprintf("%s: %v", cmd.Path, err)}
	}
	engine, ok := raw.(Engine)
	if !ok {
		l.end()
		return nil, errors.New("what was dispensed is no engine")
	}
	l.Engine = engine
	return l, nil
}

// Process is the engine's process.
func (l *Launched) Process() *os.Process { return l.cmd.Process }

// Disconnect does to the engine what the sudden death of its host does, but for
// the connection itself: the channel ends.
func (l *Launched) Disconnect() { l.channel.Close() }

// Exited reports whether the engine's process has ended.
func (l *Launched) Exited() bool { return l.client.Exited() }

// Kill ends the engine, and with it its commands.
func (l *Launched) Kill() { l.end() }
