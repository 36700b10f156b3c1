package docker

import (
	"context"
	"os"
	"runtime"
	"sync"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/daemon"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
	"github.com/sbxhost/sbxhost/shared/seccomp"
)

// New makes the engine. It reads nothing before its first use.
func New() shared.Engine {
	return &engine{surroundings: daemon.HostSurroundings(), locateInit: sandboxinit.Locate}
}

type engine struct {
	surroundings daemon.Surroundings
	locateInit   func() (sandboxinit.Binary, error)

	mu        sync.Mutex
	connected *daemon.Daemon // nil until it has answered
	sweep     sync.Once
}

func (e *engine) Info(context.Context) (shared.Info, error) { return info, nil }

// Open prepares everything except the container: the daemon, the image, and the check whether a
// container is possible.
func (e *engine) Open(ctx context.Context, spec shared.Spec) (shared.Sandbox, error) {
	return cmdengine.New(cmdengine.Config{Info: info, Init: true, Filter: filterProgram, Attach: e.attach, HomeOfCommand: true}).Open(ctx, spec)
}

// filterProgram is the filter of system calls. Docker's own stays in force. It permits calls that
// leave something behind or reach outside: set-id bits, input for terminals, io_uring, vsock.
func filterProgram(*shared.Spec) ([]byte, error) {
	filter, err := seccomp.New(runtime.GOARCH, seccomp.Options{UnixSockets: true})
	if err != nil {
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: "engine", Message: err.Error()}
	}
	return filter.Bytes(), nil
}

// daemon returns the daemon of this environment. It caches only one that has answered: somebody may
// repair it meanwhile.
func (e *engine) daemon(ctx context.Context) (*daemon.Daemon, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.connected != nil {
		return e.connected, nil
	}
	at, err := daemon.Find(e.surroundings)
	if err == nil {
		e.connected, err = daemon.Connect(ctx, at)
	}
	return e.connected, err
}

// self is the user of this process.
func self() shared.User {
	return shared.User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
}
