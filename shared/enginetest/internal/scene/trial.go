package scene

import (
	"os"
	"slices"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
)

// A Trial is one planned command, and its sandbox.
type Trial struct {
	Spec    shared.Spec
	Command shared.Command
	Stdin   *os.File
	// Act is what the kit's own program does inside; nil runs the Command as it is.
	Act []string
	// First are actions of earlier commands in the same sandbox.
	First [][]string
	TTY   bool
	// Script makes a shell start the kit's program.
	Script bool
	// During is called when the command has started or, if Awaited, when its action has reported
	// its result.
	During  func(shared.Process)
	Awaited bool
}

// NewTrial is the sandbox that every case starts from.
func (s *Scene) NewTrial() *Trial {
	t := &Trial{Spec: shared.Spec{
		Sandbox:    "probe",
		Unconfined: s.Kit.Unconfined(),
		Options:    slices.Clone(s.Kit.EngineOptions),
		Prepare:    s.Kit.Prepared,
		Table: []shared.Entry{
			{Source: s.WS, Path: s.WS, Access: shared.ReadWrite, Why: "workspace"},
			{Source: s.Kit.Program, Path: s.Kit.Program, Why: "bind_paths[0]", Access: shared.ReadOnly},
		},
	}}
	if s.session != "" {
		t.Spec.Session = shared.Session{ID: s.Canary, Dir: s.session}
	}
	claims := s.Kit.Info.Features
	if s.place.AnyNetwork && !claims.Has(shared.FeatureNetworkNone) && claims.Has(shared.FeatureNetworkHost) {
		t.Spec.Network.Mode = shared.NetworkHost
	}
	if s.place.AnyView && !claims.Has(shared.FeatureFilesystemMinimal) && claims.Has(shared.FeatureFilesystemHost) {
		t.Spec.Filesystem = shared.FilesystemHost
	}
	// If an engine claims only a part of the features, the probes of that part are tried.
	t.Spec.BestEffort = s.Engine != nil && !s.Kit.Unconfined() && shared.Refused("", t.Spec.Without(claims)) != nil
	t.Command.Dir = s.WS
	t.Command.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	t.Command.Timeout = actor.Timeout
	return t
}

// Trying is NewTrial with an action.
func (s *Scene) Trying(action string, args ...string) *Trial {
	t := s.NewTrial()
	t.Do(action, args...)
	return t
}

// Do sets the action.
func (t *Trial) Do(action string, args ...string) { t.Act = append([]string{action}, args...) }

// Add adds an entry to the table.
func (t *Trial) Add(e shared.Entry) {
	if e.Why == "" {
		e.Why = "bind_paths[1]"
	}
	t.Spec.Table = append(t.Spec.Table, e)
}

// Show adds a mount at the same path inside.
func (t *Trial) Show(path string, kind shared.Access) {
	t.Add(shared.Entry{Source: path, Path: path, Access: kind})
}

// Hide adds an entry that hides a path, if it is there.
func (t *Trial) Hide(path string) {
	t.Add(shared.Entry{Path: path, Access: shared.Hidden, Missing: shared.MissingIgnore, Why: `deny_paths "probe"`})
}

// Sorted is the Spec as a host gives it.
func (t *Trial) Sorted() shared.Spec {
	spec := t.Spec
	spec.Table = slices.SortedFunc(slices.Values(spec.Table), func(a, b shared.Entry) int { return paths.Compare(a.Path, b.Path) })
	return spec
}

// Setenv adds a variable.
func (t *Trial) Setenv(name, value string) {
	t.Command.Env = append(t.Command.Env, name+"="+value)
}
