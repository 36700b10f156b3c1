package docker

import (
	"context"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// New makes the engine. It looks at nothing before it is used.
func New() shared.Engine {
	return &engine{surroundings: hostSurroundings(), locateInit: sandboxinit.Locate}
}

func hostSurroundings() surroundings {
	return surroundings{
		getenv: os.Getenv, read: os.ReadFile,
		exists: func(path string) bool { _, err := os.Lstat(path); return err == nil },
	}
}

type engine struct {
	surroundings surroundings
	locateInit   func() (sandboxinit.Binary, error)

	mu        sync.Mutex
	connected *daemon // once it has answered
	sweep     sync.Once
	projects  atomic.Uint64 // Compose projects that this process has named
}

func (e *engine) Info(context.Context) (shared.Info, error) { return info, nil }

// Open sees to everything but the container: the daemon, the image, and whether
// a container could be made at all.
func (e *engine) Open(ctx context.Context, spec shared.Spec) (shared.Sandbox, error) {
	b := &box{engine: e}
	inner := cmdengine.New(cmdengine.Config{Info: info, Open: b.open, Begin: b.begin, Plan: b.plan})
	sandbox, err := inner.Open(ctx, spec)
	if err != nil {
		b.release()
		return nil, err
	}
	b.Sandbox = sandbox
	return b, nil
}

// self is who this process is.
func self() shared.User {
	return shared.User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
}

func machineMemory() uint64 {
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) != nil {
		return 0
	}
	return uint64(si.Totalram) * uint64(max(si.Unit, 1))
}
