package approvals

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func testKey(argv ...string) Key {
	return Key{Argv: argv, Dir: "/work", Sandbox: "fast", Workspace: "/work"}
}

// testStore is a store with a clock of its own.
func testStore(t *testing.T) (*Store, *BootTime) {
	t.Helper()
	now := &BootTime{Boot: "boot-1", Elapsed: time.Hour}
	s := Open(filepath.Join(t.TempDir(), "state"))
	s.now = func() (BootTime, error) { return *now, nil }
	return s, now
}

func mustAdd(t *testing.T, s *Store, key Key, scope Scope, session string) *Approval {
	t.Helper()
	a, err := s.Add(t.Context(), key, scope, session, DefaultTTL, "a reason")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func find(t *testing.T, s *Store, key Key, session string) Scope {
	t.Helper()
	a, err := s.Find(t.Context(), key, session)
	if err != nil {
		t.Fatal(err)
	}
	if a == nil {
		return ""
	}
	return a.Scope
}

func TestKeyIsExact(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	key := Key{Argv: []string{"rm", "-r", "a b"}, Env: DigestEnv([]string{"A=1"}), Dir: "/work/x", Sandbox: "fast", Workspace: "/work"}
	mustAdd(t, s, key, Always, "")
	if got := find(t, s, key, ""); got != Always {
		t.Fatalf("the command itself: %q", got)
	}
	for name, change := range map[string]func(*Key){
		"more arguments":  func(k *Key) { k.Argv = append(slices.Clone(k.Argv), "c") },
		"fewer":           func(k *Key) { k.Argv = k.Argv[:2] },
		"split otherwise": func(k *Key) { k.Argv = []string{"rm", "-r", "a", "b"} },
		"joined":          func(k *Key) { k.Argv = []string{"rm -r a b"} },
		"a script":        func(k *Key) { k.Script = "x" },
		"a variable":      func(k *Key) { k.Env = DigestEnv([]string{"A=2"}) },
		"no variable":     func(k *Key) { k.Env = DigestEnv(nil) },
		"elsewhere":       func(k *Key) { k.Dir = "/work" },
		"sandbox":         func(k *Key) { k.Sandbox = "fast2" },
		"workspace":       func(k *Key) { k.Workspace = "/work/x" },
		"not UTF-8":       func(k *Key) { k.Argv = []string{"rm", "-r", "a\xffb"} },
	} {
		other := key
		change(&other)
		if got := find(t, s, other, ""); got != "" {
			t.Errorf("%s: approved, %q", name, got)
		}
	}
	// What JSON would replace stays apart.
	mustAdd(t, s, testKey("x\xff"), Always, "")
	for arg, want := range map[string]Scope{"x\xff": Always, "x\ufffd": "", "x\xfe": "", "base64:eP8=": ""} {
		if got := find(t, s, testKey(arg), ""); got != want {
			t.Errorf("%q: %q, want %q", arg, got, want)
		}
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	s, now := testStore(t)
	once, session, always := testKey("once"), testKey("session"), testKey("always")
	mustAdd(t, s, once, Once, "")
	mustAdd(t, s, session, Session, "login:1")
	mustAdd(t, s, always, Always, "")
	if a, err := s.Peek(once, ""); err != nil || a == nil {
		t.Fatalf("%v, %v", a, err)
	}
	if got := []Scope{find(t, s, once, ""), find(t, s, once, "")}; !slices.Equal(got, []Scope{Once, ""}) {
		t.Errorf("once, twice: %q", got)
	}
	for who, want := range map[string]Scope{"login:1": Session, "login:2": "", "name:login:1": "", "": ""} {
		if got := find(t, s, session, who); got != want {
			t.Errorf("session %q: %q, want %q", who, got, want)
		}
	}
	now.Elapsed += DefaultTTL - 1
	if got := find(t, s, session, "login:1"); got != Session {
		t.Errorf("just before its end: %q", got)
	}
	now.Elapsed++
	if got := find(t, s, session, "login:1"); got != "" {
		t.Errorf("at its end: %q", got)
	}
	now.Elapsed = 0
	now.Boot = "boot-2"
	if got := []Scope{find(t, s, session, "login:1"), find(t, s, always, "")}; !slices.Equal(got, []Scope{"", Always}) {
		t.Errorf("after a reboot: %q", got)
	}
	// A wider scope serves first, and keeps the narrower one.
	mustAdd(t, s, always, Once, "")
	find(t, s, always, "")
	if list, err := s.List(); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	if a, err := s.Add(t.Context(), session, Session, "login:1", math.MaxInt64, ""); err != nil || a.Expired(*now) || find(t, s, session, "login:1") != Session {
		t.Errorf("the longest time to live there is: %+v, %v", a, err)
	}
	if _, err := s.Add(t.Context(), once, Session, "", DefaultTTL, ""); !errors.Is(err, ErrNoSession) {
		t.Errorf("a session of no name: %v", err)
	}
	if _, err := s.Add(t.Context(), once, "for ever", "", DefaultTTL, ""); err == nil {
		t.Error("a scope that there is not")
	}
	if _, err := s.Add(t.Context(), once, Once, "", 0, ""); err == nil {
		t.Error("a time to live of zero")
	}
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	a, b := mustAdd(t, s, testKey("a"), Always, ""), mustAdd(t, s, testKey("b"), Session, "name:x")
	if a.ID == b.ID {
		t.Fatal("one ID for two")
	}
	gone, err := s.Revoke(t.Context(), func(x *Approval) bool { return x.ID == a.ID })
	if err != nil || len(gone) != 1 || find(t, s, a.Key, "") != "" || find(t, s, b.Key, "name:x") != Session {
		t.Errorf("%v, %v", gone, err)
	}
	if gone, err := s.Revoke(t.Context(), func(x *Approval) bool { return x.ID == a.ID }); err != nil || gone != nil {
		t.Errorf("again: %v, %v", gone, err)
	}
}

// A reader takes no lock: what a writer replaces while it is read has no name any
// more, and has not been tampered with.
func TestReadWhileReplaced(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	always := mustAdd(t, s, testKey("x"), Always, "")
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				if found, err := s.Find(t.Context(), always.Key, ""); err != nil || found == nil {
					t.Errorf("%v, %v", found, err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for range 50 {
		mustAdd(t, s, testKey("y"), Always, "")
	}
	close(done)
	readers.Wait()
}

// One approval of the scope once lets one of many go on.
func TestOnceIsForOne(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	mustAdd(t, s, testKey("x"), Once, "")
	var got atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if a, err := s.Find(t.Context(), testKey("x"), ""); err != nil {
				t.Error(err)
			} else if a != nil {
				got.Add(1)
			}
		})
	}
	all.Wait()
	if got.Load() != 1 {
		t.Errorf("%d commands used one approval", got.Load())
	}
}

func TestBootTime(t *testing.T) {
	t.Parallel()
	a, err := Now()
	if err != nil {
		t.Fatal(err)
	}
	b, err := Now()
	if err != nil || a.Boot == "" || a.Boot != b.Boot || b.Elapsed < a.Elapsed || a.Elapsed <= 0 {
		t.Errorf("%+v, %+v, %v", a, b, err)
	}
	one, err := LoginSession()
	two, _ := LoginSession()
	if err != nil && !errors.Is(err, ErrNoSession) || one != two {
		t.Errorf("%q, %q, %v", one, two, err)
	}
}

func TestDir(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ state, home, want string }{
		{"/s", "/h", "/s/sbxhost"}, {"s", "/h", "/h/.local/state/sbxhost"}, {"", "/h", "/h/.local/state/sbxhost"}, {"", "h", ""},
	} {
		env := map[string]string{"XDG_STATE_HOME": c.state, "HOME": c.home}
		if got := Dir(func(n string) string { return env[n] }); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// Whatever a file holds, it is understood as a whole or refused, and what is
// understood is written as it was.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"version":2,"approvals":[]}`, `{"version":2,"approvals":[{"scope":"always","argv":["a","base64:/w=="],"dir":"/w","sandbox":"s","workspace":"/w","at":"2026-01-02T03:04:05Z"}]}`,
		`{"version":2}`, `{"version":3}`, `[]`, `{"version":2,"approvals":null} x`, `{"version":2,"approvals":[{"scope":"once","until_ns_since_boot":-1}]}`,
	} {
		f.Add([]byte(seed))
	}
	s := Open("/nonexistent")
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := s.approvals().decode(text)
		if err != nil {
			if !errors.Is(err, ErrTampered) {
				t.Errorf("%v", err)
			}
			return
		}
		again, err := s.approvals().encode(list)
		if err != nil {
			return // a year that JSON has not
		}
		back, err := s.approvals().decode(again)
		if err != nil || len(back) != len(list) {
			t.Fatalf("%v", err)
		}
		for i := range list {
			if list[i].ID != back[i].ID || list[i].Scope != back[i].Scope {
				t.Errorf("%+v became %+v", list[i], back[i])
			}
		}
	})
}
