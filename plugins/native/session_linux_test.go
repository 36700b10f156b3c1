package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/wire"
	"github.com/sbxhost/sbxhost/plugins/internal/inside"
	"github.com/sbxhost/sbxhost/shared"
)

func TestSessionHome(t *testing.T) {
	t.Parallel()
	e := need(t)
	spec := sessionSpec(t)
	spec.Home = "/home/u"
	spec.Limits.TempSize = 1 << 20
	keep, err := e.Open(t.Context(), spec) // a session lasts as long as somebody is in it
	if err != nil {
		t.Fatal(err)
	}
	defer keep.Close(t.Context())
	inside.Expect(t, e, spec, "cd; stat -c %a /home/u; echo kept > /home/u/f; echo gone > /tmp/f", "700")
	other := spec
	other.Network.Mode = shared.NetworkHost
	inside.Expect(t, e, other, "cat /home/u/f; ls /tmp", "kept")
	inside.Expect(t, e, spec, "head -c 3000000 /dev/zero > /home/u/big 2>/dev/null && echo fits || echo full; rm /home/u/big", "full")
}

func TestSessionOverlay(t *testing.T) {
	t.Parallel()
	e := need(t)
	lower := inside.Workspace(t)
	inside.Write(t, lower+"/package/lib.js", "1")
	inside.Write(t, lower+"/package/old.js", "old")
	spec := sessionSpec(t)
	spec.Table = []shared.Entry{{Source: lower, Path: "/cache", Access: shared.Overlay, Why: "workspace.caches"}}
	// As npm does: write beside, rename over, remove trees, link.
	inside.Sh(t, e, spec, `set -e; cd /cache
		mkdir -p _tmp/a; echo 2 > _tmp/a/lib.js; ln _tmp/a/lib.js _tmp/a/link.js
		rm -r package; mkdir package; mv _tmp/a/lib.js _tmp/a/link.js package/; rm -r _tmp
		chmod 755 package/lib.js; ln -s lib.js package/index.js; for i in $(seq 50); do echo $i > package/$i.js; done`)
	sandboxes := []shared.Spec{spec, spec}
	sandboxes[1].Network.Mode = shared.NetworkHost
	sandboxes[1].Table = []shared.Entry{{Source: lower, Path: "/elsewhere", Access: shared.Overlay, Why: "workspace.caches"}}
	for i, s := range sandboxes {
		inside.Expect(t, e, s, "cd "+s.Table[0].Path+"/package && cat lib.js link.js index.js 7.js && ls | wc -l && stat -c %h lib.js && test ! -e old.js && echo new", "2\n2\n2\n7\n53\n2\nnew")
		inside.Sh(t, e, s, fmt.Sprintf("echo %d >> %s/log", i, s.Table[0].Path))
	}
	inside.Expect(t, e, spec, "cat /cache/log", "0\n1")
	if b, err := os.ReadFile(lower + "/package/lib.js"); err != nil || string(b) != "1" {
		t.Errorf("the host's file: %q, %v", b, err)
	}
	// The next session begins anew.
	next := sessionSpec(t)
	next.Table = spec.Table
	inside.Expect(t, e, next, "cd /cache; cat package/lib.js package/old.js; ls", "1oldpackage")
}

func TestOverlaysThatCannotBe(t *testing.T) {
	t.Parallel()
	e := need(t)
	lower := inside.Workspace(t)
	inside.Write(t, lower+"/in/f", "f")
	overlay := func(source string) shared.Entry {
		return shared.Entry{Source: source, Path: "/o" + source, Access: shared.Overlay, Why: "workspace.caches", Degradable: true}
	}
	inSession := sessionSpec(t)
	inside.Write(t, inSession.Session.Dir+"/sub/f", "f")
	open := sessionSpec(t)
	open.Session.ID = "" // each command has an init of its own
	if err := os.Chmod(open.Session.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	mounted := "/proc" // has mounts beneath on some machines, and is no lower layer on any
	for name, tt := range map[string]struct {
		spec    shared.Spec
		mounts  []shared.Entry
		refused int
	}{
		"no session":     {shared.Spec{}, []shared.Entry{overlay(lower)}, 0},
		"nested":         {sessionSpec(t), []shared.Entry{overlay(lower), overlay(lower + "/in")}, 1},
		"session inside": {inSession, []shared.Entry{overlay(inSession.Session.Dir + "/sub")}, 0},
		"others write":   {open, []shared.Entry{overlay(lower)}, 0},
		"submounts":      {sessionSpec(t), []shared.Entry{{Source: mounted, Path: "/o", Access: shared.Overlay, Why: "workspace.caches", Degradable: true}}, 0},
	} {
		spec := tt.spec
		spec.Table = tt.mounts
		out := inside.Run(t, e, spec, shared.Command{Args: []string{"/bin/sh", "-c", "touch $0/x 2>/dev/null && echo wrote || echo refused", tt.mounts[tt.refused].Path}})
		told := 0
		for _, ev := range out.Events {
			if ev.Kind == shared.EventDegraded && ev.Details["mechanism"] == "overlay" {
				told++
			}
		}
		if out.Stdout != "refused\n" || told != 1 {
			t.Errorf("%s: %q, %+v", name, out.Stdout, out.Events)
		}
		spec.Table[tt.refused].Degradable = false
		if _, err := e.Open(t.Context(), spec); !errors.Is(err, shared.ErrUnsupported) || !strings.Contains(err.Error(), "workspace.caches") {
			t.Errorf("%s, must be: %v", name, err)
		}
	}
}

// An ordinary user writes at the top of another's directory, and no deeper.
func TestOverlayOfAnothersDirectory(t *testing.T) {
	t.Parallel()
	e := need(t)
	if os.Geteuid() == 0 {
		t.Skip("root owns what it likes")
	}
	spec := sessionSpec(t)
	spec.Table = []shared.Entry{{Source: "/usr/share", Path: "/usr/share", Access: shared.Overlay, Why: "workspace.caches", Degradable: true}}
	out := inside.Run(t, e, spec, shared.Command{Args: []string{"/bin/sh", "-c", "echo x > /usr/share/new && cat /usr/share/new; touch /usr/share/doc/new 2>/dev/null || echo refused"}})
	if out.Stdout != "x\nrefused\n" {
		t.Errorf("%q", out.Stdout)
	}
	if len(out.Events) != 1 || out.Events[0].Kind != shared.EventDegraded {
		t.Errorf("%+v", out.Events)
	}
}

func TestManyAtOnceInOneSession(t *testing.T) {
	t.Parallel()
	e := need(t)
	lower := inside.Workspace(t)
	spec := sessionSpec(t)
	spec.Home = "/home/u"
	spec.Table = []shared.Entry{{Source: lower, Path: "/cache", Access: shared.Overlay, Why: "workspace.caches"}}
	keep, err := e.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer keep.Close(t.Context())
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			s := spec
			s.Network.Mode = shared.NetworkMode(i % 2)
			out, err := inside.TryRun(t, e, s, shared.Command{Args: []string{"/bin/sh", "-c", fmt.Sprintf("echo %d > /cache/%d; echo %d > /home/u/%d", i, i, i, i)}})
			if err != nil || !out.Status.Success() {
				t.Errorf("%d: %v, %+v", i, err, out)
			}
		})
	}
	all.Wait()
	inside.Expect(t, e, spec, "ls /cache | wc -l; ls /home/u | wc -l; cat /cache/* | sort -n | tail -1", "50\n50\n49")
}

// holderPid is the holder of an engine's session.
func holderPid(t *testing.T, e shared.Engine, dir string) int {
	t.Helper()
	for key, s := range e.(*engine).sessions.open {
		if key.dir == dir && s.client != nil {
			return s.client.Pid()
		}
	}
	t.Fatal("there is no holder")
	return 0
}

func TestHolderIsKilled(t *testing.T) {
	t.Parallel()
	e := need(t)
	lower := inside.Workspace(t)
	spec := sessionSpec(t)
	spec.Table = []shared.Entry{{Source: lower, Path: "/cache", Access: shared.Overlay, Why: "workspace.caches"}}
	sandbox, err := e.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer sandbox.Close(t.Context())
	for i := range 3 {
		outR, outW := inside.Pipe(t)
		p, err := sandbox.Start(t.Context(), shared.Command{Args: []string{"/bin/sh", "-c", "echo up >> /cache/log; cat /cache/log; exec sleep 1000"}, Dir: "/", Env: inside.Env}, shared.Stdio{Stdout: outW})
		outW.Close()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(outR, make([]byte, 3*(i+1))); err != nil {
			t.Fatal(err)
		}
		syscall.Kill(holderPid(t, e, spec.Session.Dir), syscall.SIGKILL)
		if _, err := p.Wait(t.Context()); !errors.Is(err, shared.ErrBroken) || !strings.Contains(err.Error(), "the session's holder died") {
			t.Errorf("%v", err)
		}
		// Everybody who had the command's output open is gone.
		if b, err := io.ReadAll(outR); err != nil || len(b) > 0 {
			t.Errorf("%q, %v", b, err)
		}
	}
	inside.Expect(t, e, spec, "wc -l < /cache/log", "3")
}

func TestWarmSessionDoesNotGrow(t *testing.T) {
	t.Parallel()
	e := need(t)
	rounds := 200
	if os.Getenv("SBXHOST_LONG") != "" {
		rounds = 3000
	}
	spec := sessionSpec(t)
	ws := inside.Workspace(t)
	spec.Table = []shared.Entry{inside.BindRW(ws)}
	sandbox, err := e.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer sandbox.Close(t.Context())
	pid := holderPid(t, e, spec.Session.Dir)
	count := func() (n [4]int) {
		for i, sub := range []string{"fd", "task"} {
			names, _ := os.ReadDir(fmt.Sprintf("/proc/%d/%s", pid, sub))
			n[i] = len(names)
		}
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", pid))
		n[2] = strings.Count(string(b), "\n")
		b, _ = os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, rest, _ := strings.Cut(string(b), "\nVmRSS:")
		if _, err := fmt.Sscan(rest, &n[3]); err != nil {
			t.Errorf("the holder's memory: %v", err)
		}
		return n
	}
	one := func() {
		p, err := sandbox.Start(t.Context(), shared.Command{Args: []string{"/bin/true"}, Dir: "/", Env: inside.Env}, shared.Stdio{})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := p.Wait(t.Context()); err != nil || !r.Status.Success() {
			t.Fatalf("%v, %v", r, err)
		}
	}
	for range 20 {
		one()
	}
	before := count()
	for range rounds {
		one()
	}
	after := count()
	for range rounds {
		if after[0] <= before[0]+4 {
			break
		}
		one() // inits are just ending
		after = count()
	}
	if after[0] > before[0]+4 || after[1] > before[1]+30 || after[2] > before[2]+8 || after[3] > before[3]+8<<10 && !raceDetector {
		t.Errorf("descriptors, threads, mounts, KiB: %v became %v", before, after)
	}
}

// What hides a directory in which more shows is made once for a session. Somebody
// outside takes it away with the directory.
func TestShellLastsForTheSession(t *testing.T) {
	t.Parallel()
	e := need(t)
	dir := inside.Workspace(t)
	spec := sessionSpec(t)
	spec.Table = []shared.Entry{{Path: dir + "/shell", Access: shared.Hidden, Missing: shared.MissingIgnore, Why: "deny_paths[0]"}, inside.BindRW(dir), shared.Entry{Path: dir + "/shell/in", Access: shared.Private, Why: "tmpfs[0]"}}
	inside.Write(t, dir+"/shell/key", "secret")
	open, err := e.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close(t.Context())
	script := "cd " + dir + "/shell; cat key; ls; touch new; touch in/f && echo writable; mv ../shell ../away"
	for range 2 {
		if out := inside.Run(t, e, spec, shared.Command{Args: []string{"/bin/sh", "-c", script}}).Stdout; out != "in\nwritable\n" {
			t.Errorf("a command got %q", out)
		}
		if err := os.RemoveAll(dir + "/shell"); err != nil {
			t.Fatal(err)
		}
		inside.Write(t, dir+"/shell/key", "secret")
	}
}

// A command must not reach its session's holder, wherever the view shows it.
func TestHolderIsOutOfReach(t *testing.T) {
	t.Parallel()
	e := need(t)
	spec := sessionSpec(t)
	dir := spec.Session.Dir
	inside.Write(t, dir+"/visible", "visible")
	parent := filepath.Dir(dir)
	for _, mount := range []shared.Entry{inside.BindRW(parent), {Source: parent, Path: "/elsewhere", Why: "bind_paths[0]", Access: shared.ReadOnly}} {
		spec.Table = []shared.Entry{mount}
		at := filepath.Join(mount.Path, filepath.Base(dir))
		inside.Expect(t, e, spec, "cat "+at+"/visible; ls "+at+"/holder 2>/dev/null; find "+at+" -type s 2>/dev/null; mv "+at+"/holder "+at+"/x 2>/dev/null && echo moved; true", "visible")
	}
}

// A session of root's in which commands run as somebody else, who cannot even get
// to the session's directory: the overlay is made with that user's rights.
func TestSessionOfAnotherUser(t *testing.T) {
	t.Parallel()
	need(t)
	if os.Geteuid() != 0 {
		t.Skip("only root has somebody else to run commands as")
	}
	const uid, gid = 23456, 34567
	lower := inside.Workspace(t)
	for d := lower; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	inside.Write(t, lower+"/theirs/f", "f")
	inside.Write(t, lower+"/roots/f", "f")
	for _, p := range []string{"", "/theirs", "/theirs/f"} {
		if err := os.Chown(lower+p, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	spec := sessionSpec(t)
	spec.User = &shared.User{UID: uid, GID: gid, Groups: []uint32{45678}}
	spec.Home = "/home/somebody"
	spec.Table = []shared.Entry{{Source: lower, Path: "/o", Access: shared.Overlay, Why: "workspace.caches"}}
	e := New()
	keep, err := e.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer keep.Close(t.Context())
	inside.Expect(t, e, spec, "cd /o; stat -c %u:%g . theirs/f; echo new > theirs/f; touch roots/x 2>/dev/null || echo refused; echo x > /home/somebody/x; grep '^Cap' /proc/self/status | grep -c 0000000000000000",
		"23456:34567\n23456:34567\nrefused\n5")
	inside.Expect(t, e, spec, "cat /o/theirs/f /home/somebody/x", "new\nx")
	if b, _ := os.ReadFile(lower + "/theirs/f"); string(b) != "f" {
		t.Errorf("the host's file is %q", b)
	}
	// Root's own commands in the same session have a holder of their own.
	spec.User, spec.Home = nil, ""
	inside.Expect(t, e, spec, "echo $(id -u); cat /o/theirs/f", "0\nf")
}

// The first sandbox without a session has the holder that was started ahead, and one
// that nobody needs ends when that is over.
func TestStartEarly(t *testing.T) {
	t.Parallel()
	need(t)
	startEarly := func(e *engine) (over func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.StartEarly(ctx)
		}()
		return func() {
			cancel()
			<-done
		}
	}
	e := New().(*engine)
	over := startEarly(e)
	s := e.sessions.get(&shared.Spec{})
	client, err := s.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	over()
	if again, err := s.connect(t.Context()); err != nil || again != client {
		t.Errorf("the holder was not kept: %v", err)
	}
	e.sessions.put(s)
	<-client.Lost()

	e = New().(*engine)
	startEarly(e)()
	if len(e.sessions.open) > 0 {
		t.Errorf("a holder is left: %v", e.sessions.open)
	}
}

// The one command of a host that runs no other has the init that was started ahead, and no holder.
func TestStartEarlyOnce(t *testing.T) {
	need(t)
	t.Setenv(wire.OnceEnv, "1")
	startEarly := func() (e *engine, early *holder.StandaloneInit, end func()) {
		e = New().(*engine)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.StartEarly(ctx)
		}()
		early, err := e.early()
		if err != nil {
			t.Fatal(err)
		}
		return e, early, func() {
			cancel()
			<-done
		}
	}
	e, early, end := startEarly()
	defer end()
	spec := shared.Spec{}
	box, err := e.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if !e.taken.Load() {
		t.Error("another init was taken")
	}
	for _, s := range e.sessions.open {
		if s.client != nil {
			t.Error("there is a holder")
		}
	}
	box.Close(t.Context())
	if _, err := early.Wait(); err != nil {
		t.Errorf("the init: %v", err)
	}
	inside.Expect(t, e, spec, "cat /proc/1/comm", "sbxhost-init")

	e, early, end = startEarly()
	early.Kill()
	early.Wait()
	inside.Expect(t, e, spec, "cat /proc/1/comm", "sbxhost-init")
	end()

	_, early, end = startEarly()
	end() // no sandbox needs it
	early.Wait()
}
