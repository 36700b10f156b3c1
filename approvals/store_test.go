package approvals

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestMain makes the test binary one of many processes that approve at once.
func TestMain(m *testing.M) {
	if dir := os.Getenv("APPROVE_IN"); dir != "" {
		// All wait for their common standard input to end.
		os.Stdin.Read(make([]byte, 1))
		key := testKey("make", os.Getenv("APPROVE_N"))
		if _, err := Open(dir).Add(context.Background(), key, Always, "", 0, ""); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func testKey(argv ...string) Key {
	return Key{Argv: argv, Dir: "/work", Sandbox: "fast", Workspace: "/work"}
}

// testStore is a store with a clock of its own.
func testStore(t *testing.T) (*Store, *Moment) {
	t.Helper()
	now := &Moment{Boot: "boot-1", Elapsed: time.Hour}
	s := Open(filepath.Join(t.TempDir(), "state"))
	s.now = func() (Moment, error) { return *now, nil }
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

func TestManyProcesses(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	gate, open, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	const count = 50
	var cmds []*exec.Cmd
	for i := range count {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "APPROVE_IN="+dir, "APPROVE_N="+strconv.Itoa(i))
		cmd.Stdin, cmd.Stderr = gate, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	open.Close()
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	list, err := Open(dir).List()
	if err != nil || len(list) != count {
		t.Errorf("%d approvals of %d, %v", len(list), count, err)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 2 {
		t.Errorf("left are %v, %v", names, err)
	}
}

func TestTampered(t *testing.T) {
	t.Parallel()
	write := func(text string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	must := func(t *testing.T, err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		tamper func(t *testing.T, path string)
		says   string
	}{
		"writable by others": {func(t *testing.T, path string) { must(t, os.Chmod(path, 0o622)) }, "can be written by others (mode 0622)"},
		"writable directory": {func(t *testing.T, path string) { must(t, os.Chmod(filepath.Dir(path), 0o777)) }, "can be written by others"},
		"symlink": {func(t *testing.T, path string) {
			must(t, os.Rename(path, path+".real"))
			must(t, os.Symlink(path+".real", path))
		}, "is a symlink"},
		"hard link": {func(t *testing.T, path string) { must(t, os.Link(path, path+".too")) }, "has another name"},
		"fifo": {func(t *testing.T, path string) {
			must(t, os.Remove(path))
			must(t, syscall.Mkfifo(path, 0o600))
		}, "is not a regular file"},
		"truncated": {func(t *testing.T, path string) {
			info, err := os.Stat(path)
			must(t, err)
			must(t, os.Truncate(path, info.Size()/2))
		}, "only a part of it"},
		"empty":         {func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) }, "is empty"},
		"version 1":     {write(`{"version": 1, "approvals": []}`), "is of version 1"},
		"version 3":     {write(`{"version": 3, "rules": {}}`), "is of version 3"},
		"no version":    {write(`{"approvals": []}`), "is of version 0"},
		"unknown field": {write(`{"version": 2, "approvals": [{"scope": "always", "argv": ["x"], "unless": "y"}]}`), "makes no sense"},
		"unknown scope": {write(`{"version": 2, "approvals": [{"scope": "ever", "argv": ["x"]}]}`), "makes no sense"},
		"two documents": {write(`{"version": 2, "approvals": []} {"version": 2, "approvals": []}`), "not JSON"},
		"bad encoding":  {write(`{"version": 2, "approvals": [{"scope": "always", "argv": ["base64:?"]}]}`), "makes no sense"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := testStore(t)
			mustAdd(t, s, testKey("x"), Always, "")
			path := filepath.Join(s.Dir(), FileName)
			c.tamper(t, path)
			before, _ := os.Lstat(path)
			check := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, ErrTampered) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v", what, err)
				}
			}
			a, err := s.Find(t.Context(), testKey("x"), "")
			if a != nil {
				t.Error("it is approved")
			}
			check("find", err)
			list, err := s.List()
			if len(list) > 0 {
				t.Error("it is listed")
			}
			check("list", err)
			_, err = s.Add(t.Context(), testKey("y"), Always, "", 0, "")
			check("add", err)
			_, err = s.Revoke(t.Context(), func(*Approval) bool { return true })
			check("revoke", err)
			if after, _ := os.Lstat(path); !os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()) {
				t.Error("it was overwritten")
			}
		})
	}
}

func TestForeignOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	for _, what := range []string{"", FileName} {
		s, _ := testStore(t)
		mustAdd(t, s, testKey("x"), Always, "")
		if err := os.Chown(filepath.Join(s.Dir(), what), 12345, -1); err != nil {
			t.Fatal(err)
		}
		if a, err := s.Find(t.Context(), testKey("x"), ""); a != nil || !errors.Is(err, ErrTampered) || !strings.Contains(err.Error(), "belongs to user 12345") {
			t.Errorf("%q: %v, %v", what, a, err)
		}
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	if list, err := s.List(); list != nil || err != nil {
		t.Errorf("where there is none: %v, %v", list, err)
	}
	if _, err := os.Lstat(s.Dir()); !os.IsNotExist(err) {
		t.Errorf("asking has made it: %v", err)
	}
	// A writer that was killed leaves its half.
	mustAdd(t, s, testKey("a"), Always, "")
	left := filepath.Join(s.Dir(), FileName+".new")
	if err := os.WriteFile(left, []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	mustAdd(t, s, testKey("b"), Always, "")
	for path, mode := range map[string]os.FileMode{s.Dir(): os.ModeDir | 0o700, filepath.Join(s.Dir(), FileName): 0o600} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if _, err := os.Lstat(left); !os.IsNotExist(err) {
		t.Errorf("a half file stays: %v", err)
	}
	// Whoever holds the lock for long is named rather than waited for.
	d := s.document()
	dir, err := d.openDir()
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	unlock, err := d.lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Add(ctx, testKey("c"), Always, "", 0, ""); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "holds the lock") {
		t.Errorf("%v", err)
	}
}

func TestTrust(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	state := func(path, content string) Trust {
		t.Helper()
		trust, record, err := s.Trusts(path, []byte(content))
		if err != nil || (record == nil) != (trust == TrustUnknown) {
			t.Fatalf("%v, %v, %v", trust, record, err)
		}
		return trust
	}
	if got := state("/w/config.hcl", "a"); got != TrustUnknown {
		t.Errorf("before: %v", got)
	}
	for _, content := range []string{"a", "b\xff\n"} {
		if err := s.AddTrust(t.Context(), "/w/config.hcl", []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got := []Trust{state("/w/config.hcl", content), state("/w/config.hcl", content+" "), state("/v/config.hcl", content)}; !reflect.DeepEqual(got, []Trust{TrustConfirmed, TrustChanged, TrustUnknown}) {
			t.Errorf("%q: %v", content, got)
		}
	}
	if list, err := s.TrustList(); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	if found, err := s.RevokeTrust(t.Context(), "/w/config.hcl"); err != nil || !found || state("/w/config.hcl", "b\xff\n") != TrustUnknown {
		t.Errorf("%v, %v", found, err)
	}
	if found, err := s.RevokeTrust(t.Context(), "/w/config.hcl"); err != nil || found {
		t.Errorf("again: %v, %v", found, err)
	}
	// A text that was changed in the store does not fit its hash.
	if err := s.AddTrust(t.Context(), "/w/config.hcl", []byte("mild")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.Dir(), TrustFileName)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "mild", "evil", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if trust, _, err := s.Trusts("/w/config.hcl", []byte("evil")); trust != TrustUnknown || !errors.Is(err, ErrTampered) {
		t.Errorf("%v, %v", trust, err)
	}
}

func TestMoment(t *testing.T) {
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
		list, err := s.decode(text)
		if err != nil {
			if !errors.Is(err, ErrTampered) {
				t.Errorf("%v", err)
			}
			return
		}
		again, err := encode(list)
		if err != nil {
			return // a year that JSON has not
		}
		back, err := s.decode(again)
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
