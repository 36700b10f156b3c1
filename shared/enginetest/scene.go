package enginetest

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// A scene is what one probe has on the host: a directory tree of its own.
type scene struct {
	suite *Suite
	p     *probe

	dir     string // holds all that follows
	ws      string // the workspace: shown, writable
	outside string // never shown unless granted
	shown   string // shown read-only where a probe says so
	session string // the session's directory, if there is one
	// canary is a text that occurs nowhere but in this scene's secrets.
	canary string

	terminal  *terminal         // of nobody, where a probe has one
	inherited *os.File          // a descriptor that is open in every child of this process
	values    map[string]string // what prepare has to tell the trial
	cleanups  []func()
}

// layout says where the parts of a scene lie.
func (s *Suite) layout(p *probe, name string) *scene {
	sc := &scene{suite: s, p: p, dir: filepath.Join(s.dir, name), values: map[string]string{}}
	sc.ws, sc.outside, sc.shown = sc.path("ws"), sc.path("outside"), sc.path("shown")
	sc.canary = "canary-" + name + "-" + s.random
	return sc
}

// newScene plants what most probes use, in a directory of that name.
func (s *Suite) newScene(p *probe, name string) (*scene, error) {
	sc := s.layout(p, name)
	for name, text := range map[string]string{
		"ws/file": "a file\n", "ws/sub/deep/file": "a deep file\n", "ws/.env": sc.canary, "ws/keys/key": sc.canary,
		"ws/dir/sub/secret": sc.canary, "shown/file": "shown\n", "shown/sub/file": "shown\n", "outside/secret": sc.canary,
	} {
		if err := sc.write(name, text); err != nil {
			return sc, err
		}
	}
	if s.options.Session {
		// Apart, since the engine's own work in it is nobody's business.
		sc.session = filepath.Join(s.dir, "sessions", name)
		if err := os.MkdirAll(sc.session, 0o700); err != nil {
			return sc, err
		}
	}
	if p.prepare != nil {
		return sc, p.prepare(sc)
	}
	return sc, nil
}

// path is below the scene's directory.
func (s *scene) path(elements ...string) string {
	return filepath.Join(append([]string{s.dir}, elements...)...)
}

func (s *scene) write(name, text string) error {
	path := s.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// cleanup is called in reverse order when the probe is done.
func (s *scene) cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *scene) close() error {
	for i := len(s.cleanups) - 1; i >= 0; i-- {
		s.cleanups[i]()
	}
	return removeTree(s.dir)
}

// removeTree is os.RemoveAll for what commands may have made unreadable.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, os.ErrPermission) {
		return err
	}
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// A trial is one attempt in the making.
type trial struct {
	Spec    shared.Spec
	Command shared.Command
	stdin   *os.File
	// act is what the kit's own program does inside; with argv it runs that.
	act  []string
	argv []string
	// first are actions of earlier commands in the same sandbox.
	first [][]string
	tty   bool
	// during is called when the command has started or, if awaited, when its
	// action has told how it went.
	during  func(shared.Process)
	awaited bool
}

// newTrial is the sandbox that every probe starts from.
func (s *scene) newTrial() *trial {
	t := &trial{Spec: shared.Spec{
		Sandbox:    "probe",
		Unconfined: s.suite.unconfined,
		Options:    slices.Clone(s.suite.options.EngineOptions),
		Table: []shared.Entry{
			{Source: s.ws, Path: s.ws, Access: shared.ReadWrite, Why: "workspace"},
			{Source: s.suite.actor, Path: s.suite.actor, Why: "bind_paths[0]", Access: shared.ReadOnly},
		},
	}}
	t.Spec.Prepare = s.suite.options.Prepared
	if s.session != "" {
		t.Spec.Session = shared.Session{ID: s.canary, Dir: s.session}
	}
	claims := s.suite.info.Features
	if s.p.anyNetwork && !claims.Has(shared.FeatureNetworkNone) && claims.Has(shared.FeatureNetworkHost) {
		t.Spec.Network.Mode = shared.NetworkHost
	}
	if s.p.anyView && !claims.Has(shared.FeatureFilesystemMinimal) && claims.Has(shared.FeatureFilesystemHost) {
		t.Spec.Filesystem = shared.FilesystemHost
	}
	t.Command.Dir = s.ws
	t.Command.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	t.Command.Timeout = actionTimeout
	return t
}

// do sets the action.
func (t *trial) do(action string, args ...string) { t.act = append([]string{action}, args...) }

// show adds a mount at the same path inside.
func (t *trial) show(path string, kind shared.Access) {
	t.Spec.Table = append(t.Spec.Table, shared.Entry{Source: path, Path: path, Access: kind, Why: "bind_paths[1]"})
}

// showIfThere adds one that is read-only while something is there, so that a second
// command starts whatever the first has done.
func (t *trial) showIfThere(path string) {
	t.show(path, shared.ReadOnly)
	t.Spec.Table[len(t.Spec.Table)-1].Missing = shared.MissingIgnore
}

// hide adds an entry that hides a path, if it is there.
func (t *trial) hide(path string) {
	t.Spec.Table = append(t.Spec.Table, shared.Entry{Path: path, Access: shared.Hidden, Missing: shared.MissingIgnore, Why: `deny_paths "probe"`})
}

// unhide takes all of them away.
func (t *trial) unhide() {
	t.Spec.Table = slices.DeleteFunc(t.Spec.Table, func(e shared.Entry) bool { return e.Access == shared.Hidden })
}

// sorted is the Spec as a host gives it.
func (t *trial) sorted() shared.Spec {
	spec := t.Spec
	spec.Table = slices.SortedFunc(slices.Values(spec.Table), func(a, b shared.Entry) int { return paths.Compare(a.Path, b.Path) })
	return spec
}

// setenv adds a variable.
func (t *trial) setenv(name, value string) {
	t.Command.Env = append(t.Command.Env, name+"="+value)
}

// requires is what the engine must claim for the probe to be tried.
func (p *probe) requires(t *trial) []shared.Feature {
	var list []shared.Feature
	if t.Spec.Unconfined {
		if slices.ContainsFunc(t.Spec.Table, func(e shared.Entry) bool { return e.Access == shared.Hidden }) {
			list = append(list, shared.FeatureHidden)
		}
	} else {
		for _, r := range t.Spec.Requires() {
			list = append(list, r.Feature)
		}
	}
	list = append(list, p.features...)
	if t.tty {
		list = append(list, shared.FeatureTTY)
	}
	return list
}

// missing is what of a list an engine does not claim.
func missing(have shared.Features, want []shared.Feature) string {
	var lacking []string
	for _, f := range want {
		if !have.Has(f) {
			lacking = append(lacking, string(f))
		}
	}
	return strings.Join(lacking, ", ")
}
