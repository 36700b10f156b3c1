package seatbelt

import (
	"runtime"
	"sync"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
)

// sandboxExec is the launcher: this one and no other, never from PATH.
const sandboxExec = "/usr/bin/sandbox-exec"

// New makes the engine. It reads nothing before its first use. Planning works on every system.
func New() shared.Engine { return newEngine(platform{runtime.GOOS, sandboxExec}) }

// platform is what an engine works with; tests without a Mac use a fake.
type platform struct {
	goos     string
	launcher string
}

type engine struct {
	platform platform

	mu               sync.Mutex
	acceptedProfiles map[string]bool // profiles that sandbox-exec has accepted
	started          sync.Map        // *exec.Cmd to *start
}

func newEngine(p platform) shared.Engine {
	e := &engine{platform: p, acceptedProfiles: map[string]bool{}}
	return cmdengine.New(cmdengine.Config{
		Info:   info,
		Probe:  e.probe,
		Open:   e.open,
		Launch: e.launch,
		Plan:   e.plan,
		Attend: e.attend,
	})
}

const (
	reasonUnsupported = "seatbelt needs macOS"
	fixUnsupported    = `use engine = "native" on Linux, or "auto"`
)

func (p platform) check() error {
	if p.goos == "darwin" {
		return nil
	}
	return &shared.Error{Kind: shared.ErrUnusable, Attribute: "engine", Message: reasonUnsupported, Hint: fixUnsupported}
}
