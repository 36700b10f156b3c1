package session

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

func newSession(t *testing.T, o Options) *Session {
	t.Helper()
	base, err := os.MkdirTemp(t.TempDir(), "sessions")
	if err != nil {
		t.Fatal(err)
	}
	if o.Dir == "" {
		o.Dir = base
	}
	s, err := New(o, Purpose{Root: t.TempDir(), LookupEnv: func(string) (string, bool) { return "", false }, Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// What commands with credentials leave behind is not seen by those without.
func TestReachesShareNoDirectory(t *testing.T) {
	t.Parallel()
	s := newSession(t, Options{Name: "work"})
	seen := map[string]string{}
	own := map[string]view.Credential{"passed": {Pass: true}, "inject-a": {Pass: true}}
	for _, credentials := range [][]string{
		{}, {"github"}, {"ssh-agent"}, {"github", "ssh-agent"}, {"passed"}, {"inject-a"}, {"a"},
		{"a", "b"}, {"a_inject-b"}, {"a_-inject-b"}, {"a__-inject-b"}, // names of a file's own
	} {
		key := CredentialKey(&view.Definition{Credentials: credentials}, own)
		state, err := s.Get(key, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, place := range []string{state.Dir, state.Home, state.ID} {
			if before, ok := seen[place]; ok || place == "" {
				t.Errorf("credentials %q: %q, which those of %q have", credentials, place, before)
			}
			seen[place] = strings.Join(credentials, " ")
		}
	}
	github := &view.Definition{Credentials: []string{"github"}}
	if a, b := CredentialKey(github, nil), CredentialKey(github, map[string]view.Credential{"github": {Pass: true}}); a == b {
		t.Errorf("%q is that of a credential that stays outside, and of one that is passed on", a)
	}
	if a, b := CredentialKey(&view.Definition{Credentials: []string{"b", "a", "b"}}, nil), CredentialKey(&view.Definition{Credentials: []string{"a", "b"}}, nil); a != b {
		t.Errorf("%q and %q are the same credentials", a, b)
	}
}

func TestOnceMakesADirectoryOnDemand(t *testing.T) {
	t.Parallel()
	s := newSession(t, Options{OneShot: true})
	if state, err := s.Get("", false); err != nil || state.Dir != "" || state.ID != "" {
		t.Errorf("before anything is to be written: %+v, %v", state, err)
	}
	if state, err := s.Get("", true); err != nil || state.Dir == "" || state.ID != "" {
		t.Errorf("when something is: %+v, %v", state, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Get("", true); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := s.Plan("", nil); !errors.Is(err, ErrClosed) {
		t.Errorf("a plan after Close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	if left, err := os.ReadDir(s.Base()); err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool { return !strings.HasPrefix(e.Name(), ".") }) {
		t.Errorf("Close leaves %v, error %v", left, err)
	}
}

// A size that is required is refused where nothing holds it.
func TestSizeOfADiskIsNotPromised(t *testing.T) {
	t.Parallel()
	spec := shared.Spec{Home: "/home/u", Limits: shared.Limits{TempSize: 1 << 20},
		Table: []shared.Entry{{Path: "/home/u", Source: t.TempDir(), Access: shared.ReadWrite, Why: view.OriginHome}}}
	if err := Prepare(&spec); !errors.Is(err, shared.ErrUnsupported) || !strings.Contains(err.Error(), "limits.temp_size") {
		t.Errorf("required: %v", err)
	}
	spec.Limits.BestEffort = true
	if err := Prepare(&spec); err != nil {
		t.Errorf("best effort: %v", err)
	}
}

// Where a command has put a link on the way to the sessions, nothing is made.
func TestPlantedBase(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, dir+"/cache"); err != nil {
		t.Fatal(err)
	}
	lookup := func(name string) (string, bool) { return dir + "/cache", name == "XDG_CACHE_HOME" }
	writable := func() []string { return []string{dir} }
	p := Purpose{Root: dir, LookupEnv: lookup, Writable: writable, Logger: hclog.NewNullLogger()}
	if _, err := New(Options{Name: "x"}, p); err == nil || !strings.Contains(err.Error(), "lies where commands can write") {
		t.Errorf("a named session: %v", err)
	}
	if _, err := KeeperDir(lookup, "x", writable); err == nil || !strings.Contains(err.Error(), "lies where commands can write") {
		t.Errorf("its keeper: %v", err)
	}
	s, err := New(Options{}, p)
	if err != nil {
		t.Fatal(err)
	}
	if state, err := s.Get("", true); err != nil || state.Dir != "" || !strings.Contains(state.Note, "lies where commands can write") {
		t.Errorf("an unnamed one: %+v, %v", state, err)
	}
	if list, err := os.ReadDir(outside); err != nil || len(list) > 0 {
		t.Errorf("there is %v, %v", list, err)
	}
}
