package seatbelt

import (
	"context"
	"runtime"
	"sync"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
)

var info = shared.Info{
	Name:    "seatbelt",
	Version: "0.1.0-dev",
	Doc:     "the sandbox of macOS, with sandbox-exec: no daemon, no image; paths are the host's own",
	Features: shared.Features{
		shared.FeatureNetworkNone, shared.FeatureNetworkHost, shared.FeatureNetworkProxy,
		shared.FeatureFilesystemMinimal, shared.FeatureFilesystemHost,
		shared.FeatureHidden, shared.FeatureNested, shared.FeatureHomePrivate, shared.FeatureTempPrivate, shared.FeatureProcessesHidden, shared.FeatureKernelFiltered, shared.FeatureMetadata,
		shared.FeatureTTY, shared.FeatureUser,
	},
}

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
}

func newEngine(p platform) shared.Engine {
	e := &engine{platform: p, acceptedProfiles: map[string]bool{}}
	return cmdengine.New(cmdengine.Config{
		Info:   info,
		Probe:  e.probe,
		Open:   e.open,
		Attach: e.attach,
		Plan:   e.plan,
	})
}

func (e *engine) attach(_ context.Context, spec *shared.Spec) (*cmdengine.Attachment, error) {
	launch := func(cmd *shared.Command) (*cmdengine.Launch, error) { return e.launch(spec, cmd) }
	return &cmdengine.Attachment{Launch: launch}, nil
}

const reasonUnsupported = "seatbelt needs macOS"

func (p platform) check() error {
	if p.goos == "darwin" {
		return nil
	}
	return &shared.Error{Kind: shared.ErrUnusable, Attribute: "engine", Message: reasonUnsupported, Hint: `use engine = "native" on Linux, or "auto"`}
}
