// Package scene is where one case of the conformance kit is tried: a tree of files on the host, a
// sandbox that shows a part of it, a command in it, and the same command outside. It says how a
// case ends, however the engine behaves. It knows neither probes nor rules.
package scene

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/creack/pty"

	"github.com/sbxhost/sbxhost/internal/engine/scratch"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
)

// A Place says what a scene is for.
type Place struct {
	ID string // of the probe or rule
	// AnyView and AnyNetwork say that the case is not about the files that the view shows, or not
	// about the network. So it is tried in the view or network that an engine claims, if the engine
	// does not claim the minimal view, or no network.
	AnyView, AnyNetwork bool
	// Prepare plants, outside of the sandbox, what the case is about; nil plants nothing.
	Prepare func(s *Scene)
}

// A Scene is what one case is tried with: a directory tree of its own on the host, and
// the engine. Its methods end the case if something is wrong, as those of a *testing.T do.
type Scene struct {
	Kit    *Kit
	place  Place
	Ctx    context.Context
	Limit  time.Duration // of the whole case
	Engine shared.Engine

	Dir     string // holds all that follows
	WS      string // the workspace: shown, writable
	Outside string // never shown unless granted
	Shown   string // shown read-only where a probe says so
	session string // the session's directory, if there is one
	// Canary is a text that occurs only in this scene's secrets.
	Canary string

	Foreign *os.File          // a terminal of nobody, where a probe has one
	Values  map[string]string // what prepare passes to the trial
	Before  map[string]string // the scene's files, where a probe compares them

	mu       sync.Mutex // a case that does not end may go on while its scene is closed
	faults   []string
	cleanups []func()
}

// Layout returns a scene with the paths of its parts.
func (k *Kit) Layout(p Place, name string) *Scene {
	sc := &Scene{Kit: k, place: p, Engine: k.Engine, Dir: filepath.Join(k.Dir, name), Values: map[string]string{}}
	sc.WS, sc.Outside, sc.Shown = sc.Path("ws"), sc.Path("outside"), sc.Path("shown")
	sc.Canary = "canary-" + name + "-" + k.Random
	if k.Session {
		// It lies apart, because the engine's own files in it are not part of the scene.
		sc.session = filepath.Join(k.Dir, "sessions", name)
	}
	return sc
}

// Plant makes the scene's files outside of a case. Its error is nil where a machine lacks some.
func (s *Scene) Plant() error {
	if e := caught(s.plant); e != nil && e.status.Bad() {
		return errors.New(e.detail)
	}
	return nil
}

// plant makes the files that most probes use, and those of this one.
func (s *Scene) plant() {
	for name, text := range map[string]string{
		"ws/file": "a file\n", "ws/sub/deep/file": "a deep file\n", "ws/.env": s.Canary, "ws/keys/key": s.Canary,
		"ws/dir/sub/secret": s.Canary, "shown/file": "shown\n", "shown/sub/file": "shown\n", "outside/secret": s.Canary,
	} {
		s.Must(s.Write(name, text))
	}
	if s.session != "" {
		s.Must(os.MkdirAll(s.session, 0o700))
	}
	if s.place.Prepare != nil {
		s.place.Prepare(s)
	}
}

// Path is below the scene's directory.
func (s *Scene) Path(elements ...string) string {
	return filepath.Join(append([]string{s.Dir}, elements...)...)
}

// Fill replaces {ws} and the like by the scene's own values.
func (s *Scene) Fill(texts ...string) (filled []string) {
	pairs := []string{"{dir}", s.Dir, "{ws}", s.WS, "{outside}", s.Outside, "{shown}", s.Shown, "{canary}", s.Canary,
		"{kit}", s.Kit.Program, "{home}", s.Kit.Home, "{unique}", s.Kit.Random + s.place.ID, "{tab}", "\t"}
	for name, value := range s.Values {
		pairs = append(pairs, "{"+name+"}", value)
	}
	r := strings.NewReplacer(pairs...)
	for _, text := range texts {
		filled = append(filled, r.Replace(text))
	}
	return filled
}

// Words are the words of a text, each filled.
func (s *Scene) Words(text string) []string { return s.Fill(strings.Fields(text)...) }

// Write makes a file below the scene's directory, which is executable if it begins as a script.
func (s *Scene) Write(name, text string) error {
	path := s.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if strings.HasPrefix(text, "#!") {
		mode = 0o755
	}
	return os.WriteFile(path, []byte(text), mode)
}

// Cleanup is called in reverse order when the case is done.
func (s *Scene) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

// Close removes what belongs to the scene.
func (s *Scene) Close() error {
	s.mu.Lock()
	cleanups := s.cleanups
	s.cleanups = nil
	s.mu.Unlock()
	for _, f := range slices.Backward(cleanups) {
		f()
	}
	return scratch.RemoveTree(s.Dir)
}

// Patience is how long one step may take.
func (s *Scene) Patience() time.Duration { return min(actor.Timeout, s.Limit/3) }

// Many is how many commands a case starts.
func (s *Scene) Many(n, brief int) int {
	if s.Kit.Brief {
		return brief
	}
	return n
}

// Pipe returns a pipe that is closed at the end.
func (s *Scene) Pipe() (r, w *os.File) {
	r, w, err := os.Pipe()
	s.Must(err)
	s.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// Feed writes text to a command's input, and closes the input. The function that it returns waits
// for that.
func (s *Scene) Feed(w *os.File, text io.Reader) (fed func()) {
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, text)
		done <- errors.Join(err, w.Close())
	}()
	return func() { s.Must(<-done) }
}

// Serve has f answer each client of a listener, which is closed at the end.
func (s *Scene) Serve(l net.Listener, f func(net.Conn)) {
	s.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f(c)
			}()
		}
	}()
}

// Terminal returns a terminal, which is closed at the end.
func (s *Scene) Terminal() (master, slave *os.File) {
	master, slave, err := pty.Open()
	s.Needs(err == nil, "no terminal: %v", err)
	s.Cleanup(func() { master.Close(); slave.Close() })
	return master, slave
}

// NotClaimed begins the reason for a skipped case.
const NotClaimed = "the engine does not claim "

// Missing names the features of a list that an engine does not claim.
func Missing(have shared.Features, want []shared.Feature) string {
	var lacking []shared.Feature
	for _, f := range want {
		if !have.Has(Claimable(have, f)) && !slices.Contains(lacking, f) {
			lacking = append(lacking, f)
		}
	}
	return Joined(lacking)
}

// Claimable is the feature by which an engine would hold f: a list of names also by a proxy.
func Claimable(have shared.Features, f shared.Feature) shared.Feature {
	if f == shared.FeatureNetworkNames && !have.Has(f) && have.Has(shared.FeatureNetworkProxy) {
		return shared.FeatureNetworkProxy
	}
	return f
}

func Joined(list []shared.Feature) string {
	var texts []string
	for _, f := range list {
		texts = append(texts, string(f))
	}
	return strings.Join(texts, ", ")
}

// HostHas returns an error if something exists at a path.
func HostHas(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("it is on the host: %s", path)
	}
	return nil
}

// Until calls f again and again while it returns an error, for one step's time.
func (s *Scene) Until(f func() error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(s.Patience())
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			s.Must(err)
		}
	}
}

// OpenAs opens a sandbox, which is closed at the end.
func (s *Scene) OpenAs(spec shared.Spec) shared.Sandbox {
	sandbox, err := s.Engine.Open(s.Ctx, spec)
	s.Demand(err == nil, "opening: %v", err)
	s.Cleanup(func() { sandbox.Close(context.WithoutCancel(s.Ctx)) })
	return sandbox
}

// IPCKey is a key that no other scene has.
func (s *Scene) IPCKey() uint32 {
	hash := fnv.New32a()
	hash.Write([]byte(s.Canary))
	return hash.Sum32() & 0x7fffffff
}
