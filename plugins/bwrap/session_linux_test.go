package bwrap

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/mountplan"
)

// underHolder are the tests of what bubblewrap makes by itself, which a session's
// holder has to make alike.
var underHolder = map[string]func(*testing.T){
	"Minimal": TestMinimalShowsNothingOfTheHost, "NothingWritable": TestNothingIsWritableButMemory,
	"KernelControls": TestKernelControlsAreReadOnly, "Confined": TestProcessIsConfined, "Environment": TestEnvironmentIsExact,
	"Network": TestNetwork, "Tools": TestToolsWork, "LongScript": TestLongScript, "Limits": TestLimitsHeld, "LimitsWithoutGroups": TestLimitsWithoutGroups,
	"ForkBomb": TestForkBomb, "Balloon": TestMemoryBalloon, "Filter": TestFilter, "Status": TestStatusAndErrors,
	"Workspace": TestWorkspace, "HostView": TestHostView, "StrangeNames": TestStrangeNames, "Hidden": TestHidden, "Pins": TestPins,
	"Destinations": TestDestinations, "User": TestUser,
}

const holderPrefix = "TestHolder/"

func TestHolder(t *testing.T) {
	needHolder(t)
	for name, test := range underHolder {
		t.Run(name, test)
	}
}

// directories are the session directories of TestHolder's tests, by their names.
var directories sync.Map

// inSession gives the sandboxes of TestHolder's tests a session.
func inSession(t *testing.T, spec *shared.Spec) {
	t.Helper()
	if !strings.HasPrefix(t.Name(), holderPrefix) || spec.Session.Dir != "" {
		return
	}
	name := strings.Join(strings.SplitN(t.Name(), "/", 3)[:2], "/")
	dir, ok := directories.Load(name)
	if !ok {
		dir = sessionDir(t)
		directories.Store(name, dir)
		t.Cleanup(func() { directories.Delete(name) })
	}
	spec.Session = shared.Session{ID: name, Dir: dir.(string)}
}

// sessionDir is a session's directory, the holder of which must end.
func sessionDir(t *testing.T) string {
	t.Helper()
	dir := workspace(t)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		locks, _ := filepath.Glob(filepath.Join(dir, "holder", "*", "lock"))
		for _, lock := range locks {
			if fd, err := unix.Open(lock, unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
				unix.Flock(fd, unix.LOCK_EX)
				unix.Close(fd)
			}
		}
		filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if d != nil && d.IsDir() {
				os.Chmod(p, 0o700)
			}
			return nil
		})
	})
	return dir
}

func sessionSpec(t *testing.T) shared.Spec {
	t.Helper()
	return shared.Spec{Session: shared.Session{ID: t.Name(), Dir: sessionDir(t)}}
}

// needHolder skips where bubblewrap works and a holder does not.
func needHolder(t *testing.T) shared.Engine {
	t.Helper()
	e := needBwrap(t)
	spec := sessionSpec(t)
	sandbox, err := e.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer sandbox.Close(t.Context())
	if h := heldBy(t, e, spec); !h.Holder {
		if required("bwrap") {
			t.Fatalf("a holder is required: %s", h.Reason)
		}
		t.Skipf("no holder: %s", h.Reason)
	}
	return e
}

// heldBy joins the session of spec as a sandbox does.
func heldBy(t *testing.T, e shared.Engine, spec shared.Spec) *mountplan.Held {
	t.Helper()
	s := &opened{engine: &engine{Engine: e}, spec: &spec, held: &mountplan.Held{}}
	if err := s.join(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.leave()
	return s.held
}

func TestSessionHome(t *testing.T) {
	t.Parallel()
	e := needHolder(t)
	spec := sessionSpec(t)
	spec.Home = "/home/u"
	spec.Limits.TempSize = 1 << 20
	keep, err := e.Open(t.Context(), spec) // a session lasts as long as somebody is in it
	if err != nil {
		t.Fatal(err)
	}
	defer keep.Close(t.Context())
	expect(t, e, spec, "cd; stat -c %a /home/u; echo kept > /home/u/f; echo gone > /tmp/f", "700")
	other := spec
	other.Network.Mode = shared.NetworkHost
	expect(t, e, other, "cat /home/u/f; ls /tmp", "kept")
	expect(t, e, spec, "head -c 3000000 /dev/zero > /home/u/big 2>/dev/null && echo fits || echo full; rm /home/u/big", "full")
}

func TestSessionOverlay(t *testing.T) {
	t.Parallel()
	e := needHolder(t)
	lower := workspace(t)
	write(t, lower+"/package/lib.js", "1")
	write(t, lower+"/package/old.js", "old")
	spec := sessionSpec(t)
	spec.Table = []shared.Entry{{Source: lower, Path: "/cache", Access: shared.Overlay, Why: "workspace.caches"}}
	// As npm does: write beside, rename over, remove trees, link.
	sh(t, e, spec, `set -e; cd /cache
		mkdir -p _tmp/a; echo 2 > _tmp/a/lib.js; ln _tmp/a/lib.js _tmp/a/link.js
		rm -r package; mkdir package; mv _tmp/a/lib.js _tmp/a/link.js package/; rm -r _tmp
		chmod 755 package/lib.js; ln -s lib.js package/index.js; for i in $(seq 50); do echo $i > package/$i.js; done`)
	sandboxes := []shared.Spec{spec, spec}
	sandboxes[1].Network.Mode = shared.NetworkHost
	sandboxes[1].Table = []shared.Entry{{Source: lower, Path: "/elsewhere", Access: shared.Overlay, Why: "workspace.caches"}}
	for i, s := range sandboxes {
		expect(t, e, s, "cd "+s.Table[0].Path+"/package && cat lib.js link.js index.js 7.js && ls | wc -l && stat -c %h lib.js && test ! -e old.js && echo new", "2\n2\n2\n7\n53\n2\nnew")
		sh(t, e, s, fmt.Sprintf("echo %d >> %s/log", i, s.Table[0].Path))
	}
	expect(t, e, spec, "cat /cache/log", "0\n1")
	if b, err := os.ReadFile(lower + "/package/lib.js"); err != nil || string(b) != "1" {
		t.Errorf("the host's file: %q, %v", b, err)
	}
	// The next session begins anew.
	next := sessionSpec(t)
	next.Table = spec.Table
	expect(t, e, next, "cd /cache; cat package/lib.js package/old.js; ls", "1oldpackage")
}

func TestOverlaysThatCannotBe(t *testing.T) {
	t.Parallel()
	e := needHolder(t)
	lower := workspace(t)
	write(t, lower+"/in/f", "f")
	overlay := func(source string) shared.Entry {
		return shared.Entry{Source: source, Path: "/o" + source, Access: shared.Overlay, Why: "workspace.caches", Degradable: true}
	}
	inSession := sessionSpec(t)
	write(t, inSession.Session.Dir+"/sub/f", "f")
	mounted := "/proc" // has mounts beneath on some machines, and is no lower layer on any
	for name, tt := range map[string]struct {
		spec    shared.Spec
		mounts  []shared.Entry
		refused int
	}{
		"no session":     {shared.Spec{}, []shared.Entry{overlay(lower)}, 0},
		"nested":         {sessionSpec(t), []shared.Entry{overlay(lower), overlay(lower + "/in")}, 1},
		"session inside": {inSession, []shared.Entry{overlay(inSession.Session.Dir + "/sub")}, 0},
		"submounts":      {sessionSpec(t), []shared.Entry{{Source: mounted, Path: "/o", Access: shared.Overlay, Why: "workspace.caches", Degradable: true}}, 0},
	} {
		spec := tt.spec
		spec.Table = tt.mounts
		out := run(t, e, spec, shared.Command{Args: []string{"/bin/sh", "-c", "touch $0/x 2>/dev/null && echo wrote || echo refused", tt.mounts[tt.refused].Path}})
		told := 0
		for _, ev := range out.events {
			if ev.Kind == shared.EventDegraded && ev.Details["mechanism"] == "overlay" {
				told++
			}
		}
		if out.stdout != "refused\n" || told != 1 {
			t.Errorf("%s: %q, %+v", name, out.stdout, out.events)
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
	e := needHolder(t)
	if os.Geteuid() == 0 {
		t.Skip("root owns what it likes")
	}
	spec := sessionSpec(t)
	spec.Table = []shared.Entry{{Source: "/usr/share", Path: "/usr/share", Access: shared.Overlay, Why: "workspace.caches", Degradable: true}}
	out := run(t, e, spec, shared.Command{Args: []string{"/bin/sh", "-c", "echo x > /usr/share/new && cat /usr/share/new; touch /usr/share/doc/new 2>/dev/null || echo refused"}})
	if out.stdout != "x\nrefused\n" {
		t.Errorf("%q", out.stdout)
	}
	if len(out.events) != 1 || out.events[0].Kind != shared.EventDegraded {
		t.Errorf("%+v", out.events)
	}
}

func TestManyAtOnceInOneSession(t *testing.T) {
	t.Parallel()
	e := needHolder(t)
	lower := workspace(t)
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
			out, err := tryRun(t, e, s, shared.Command{Args: []string{"/bin/sh", "-c", fmt.Sprintf("echo %d > /cache/%d; echo %d > /home/u/%d", i, i, i, i)}})
			if err != nil || !out.Status.Success() {
				t.Errorf("%d: %v, %+v", i, err, out)
			}
		})
	}
	all.Wait()
	expect(t, e, spec, "ls /cache | wc -l; ls /home/u | wc -l; cat /cache/* | sort -n | tail -1", "50\n50\n49")
}

// holderPid is the holder of a session.
func holderPid(t *testing.T, dir string) int {
	t.Helper()
	pid := tryHolderPid(dir)
	if pid == 0 {
		t.Fatal("there is no holder")
	}
	return pid
}

// tryHolderPid is 0 where nobody listens.
func tryHolderPid(dir string) int {
	places, _ := filepath.Glob(filepath.Join(dir, "holder", "*"))
	for _, place := range places {
		at, err := unix.Open(place, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		defer unix.Close(at)
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			continue
		}
		defer unix.Close(fd)
		if unix.Connect(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/socket", at)}) != nil {
			continue
		}
		if cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			return int(cred.Pid)
		}
	}
	return 0
}

func TestHolderIsKilled(t *testing.T) {
	t.Parallel()
	e := needHolder(t)
	lower := workspace(t)
	spec := sessionSpec(t)
	spec.Table = []shared.Entry{{Source: lower, Path: "/cache", Access: shared.Overlay, Why: "workspace.caches"}}
	sandbox, err := e.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer sandbox.Close(t.Context())
	for i := range 3 {
		outR, outW := pipe(t)
		p, err := sandbox.Start(t.Context(), shared.Command{Args: []string{"/bin/sh", "-c", "echo up >> /cache/log; cat /cache/log; exec sleep 1000"}, Dir: "/", Env: env}, shared.Stdio{Stdout: outW})
		outW.Close()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(outR, make([]byte, 3*(i+1))); err != nil {
			t.Fatal(err)
		}
		syscall.Kill(holderPid(t, spec.Session.Dir), syscall.SIGKILL)
		if _, err := p.Wait(t.Context()); !errors.Is(err, shared.ErrBroken) || !strings.Contains(err.Error(), "the session's holder died") {
			t.Errorf("%v", err)
		}
		// Everybody who had the command's output open is gone.
		if b, err := io.ReadAll(outR); err != nil || len(b) > 0 {
			t.Errorf("%q, %v", b, err)
		}
	}
	expect(t, e, spec, "wc -l < /cache/log", "3")
}

func TestWarmSessionDoesNotGrow(t *testing.T) {
	t.Parallel()
	e := needHolder(t)
	rounds := 200
	if os.Getenv("SBXHOST_LONG") != "" {
		rounds = 3000
	}
	spec := sessionSpec(t)
	ws := workspace(t)
	spec.Table = []shared.Entry{bindRW(ws)}
	sandbox, err := e.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer sandbox.Close(t.Context())
	pid := holderPid(t, spec.Session.Dir)
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
		p, err := sandbox.Start(t.Context(), shared.Command{Args: []string{"/bin/true"}, Dir: "/", Env: env}, shared.Stdio{})
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
	if after := count(); after[0] > before[0]+4 || after[1] > before[1]+30 || after[2] > before[2]+8 || after[3] > before[3]+8<<10 && !raceDetector {
		t.Errorf("descriptors, threads, mounts, KiB: %v became %v", before, after)
	}
}

// TestPins: renaming a parent of what is hidden fails, in either executor.
func TestPins(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	dir := workspace(t)
	write(t, dir+"/a/b/.env", "secret")
	write(t, dir+"/a/b/keys/k", "secret")
	write(t, dir+"/a/free/x", "x")
	write(t, dir+"/ro/f", "f")
	spec := shared.Spec{Table: []shared.Entry{bindRW(dir), {Source: dir + "/ro", Path: dir + "/a/free", Why: "bind_paths[0]", Access: shared.ReadOnly}}}
	cmd := shared.Command{Dir: dir, Args: []string{"/bin/sh", "-c", `
		for d in a a/b a/b/keys a/b/.env; do mv $d moved 2>/dev/null && echo moved $d; rmdir $d 2>/dev/null && echo removed $d; done
		mv a/b a/c 2>/dev/null && echo moved; rm -rf a 2>/dev/null
		cat a/b/.env a/b/keys/k moved/b/.env 2>/dev/null; cat a/free/f; echo; touch a/new a/b/new && ls a a/b`}}
	open := spec
	spec.Table = append(hide(dir+"/a/b/.env", dir+"/a/b/keys"), open.Table...)
	want := "f\na:\nb\nfree\nnew\n\na/b:\nkeys\nnew\n"
	if got := run(t, e, spec, cmd).stdout; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for path, text := range map[string]string{"/a/b/.env": "secret", "/a/b/keys/k": "secret"} {
		if b, _ := os.ReadFile(dir + path); string(b) != text {
			t.Errorf("%s is %q", path, b)
		}
	}
	// The control: where nothing is hidden they move.
	cmd.Args[2] = "mv a/b other && cat other/.env"
	if out := run(t, e, open, cmd); out.stdout != "secret" {
		t.Errorf("control: %q, %q", out.stdout, out.stderr)
	}
}

// Both executors show the same: every file with its mode and owner, every mount.
func TestExecutorsAgree(t *testing.T) {
	t.Parallel()
	e := needHolder(t)
	dir := workspace(t)
	write(t, dir+"/.env", "secret")
	write(t, dir+"/src/deep/secret", "secret")
	write(t, dir+"/src/f", "f")
	write(t, dir+"/config", "c")
	write(t, dir+"/shell/key", "secret")
	write(t, dir+"/other/f", "f")
	// With as many as this the holder makes them late.
	var many []shared.Entry
	for i := range 40 {
		path := dir + "/src/many/" + strconv.Itoa(i)
		many = append(many, hide(path)...)
		write(t, path, "secret")
	}
	for i, kind := range []shared.Filesystem{shared.FilesystemMinimal, shared.FilesystemHost, shared.FilesystemMinimal, shared.FilesystemHost} {
		direct := shared.Spec{Filesystem: kind, Home: "/tmp/home", Table: []shared.Entry{
			bindRW(dir),
			{Source: dir + "/config", Path: "/tmp/home/.gitconfig", Why: "bind_paths[0]", Access: shared.ReadOnly},
			{Source: dir + "/src", Path: "/tmp/deep/src", Why: "bind_paths[1]", Access: shared.ReadOnly},
			{Path: "/tmp/scratch", Access: shared.Private, Why: "tmpfs[0]"},
		}}
		if kind == shared.FilesystemMinimal {
			direct.Table = append(direct.Table, shared.Entry{Source: dir + "/src", Path: "/srv/src", Access: shared.ReadWrite, Why: "bind_paths[1]"},
				shared.Entry{Path: "/scratch", Access: shared.Private, Why: "tmpfs[0]"})
		}
		direct.Table = append(direct.Table, hide(dir+"/.env", dir+"/src/deep", dir+"/shell", dir+"/shell/key")...)
		direct.Table = append(direct.Table, shared.Entry{Source: dir + "/other", Path: dir + "/shell/new/in", Access: shared.ReadWrite, Why: "bind_paths[2]"},
			shared.Entry{Source: dir + "/config", Path: dir + "/shell/config", Access: shared.ReadOnly, Why: "bind_paths[3]"})
		if i >= 2 {
			direct.Table = append(direct.Table, many...)
		}
		held := direct
		held.Session = sessionSpec(t).Session
		cmd := shared.Command{Dir: dir,
			Args: []string{"/bin/sh", "-c", `find / /etc /etc/ssl /srv /proc/sys -maxdepth 1 -printf '%M %U:%G %p %l\n' 2>/dev/null | sort
				find /tmp /dev /run -mindepth 1 -printf '%M %U:%G %p %l\n' 2>/dev/null | grep -v ' /dev/pts/' | sort
				awk '{split($6,o,","); print $5, o[1], index($6,"nosuid")>0, index($6,"nodev")>0}' /proc/self/mountinfo | sort -u
				find ./shell
				for p in / /tmp /run /usr /etc /var /dev . src src/deep src/many/7 shell shell/new shell/new/in /tmp/deep /tmp/scratch /tmp/home /srv/src; do (: > $p/.w) 2>/dev/null && echo $p writable && rm $p/.w; done`}}
		// bubblewrap's own mode of a directory on the way to a bind is its business,
		// and the top of a devpts is the kernel's: it belongs to whoever is 0 where
		// it was mounted.
		plain := regexp.MustCompile(`(?m)^d[rwxst-]{9} \S+ (/etc\S*|/srv|/var|/dev/pts|\S+/shell/new )`)
		view := func(spec shared.Spec) string { return plain.ReplaceAllString(run(t, e, spec, cmd).stdout, "$1") }
		a, b := sorted(view(direct)), sorted(view(held))
		if a != b {
			t.Errorf("%v: the views differ:\n%s", kind, difference(t, a, b))
		}
		if want := "\n./shell\n./shell/config\n./shell/new\n./shell/new/in\n./shell/new/in/f"; !strings.Contains(a, want) || strings.Contains(a, "/shell/key") || !strings.Contains(a, "\nshell/new/in writable") || strings.Contains(a, "\nshell writable") {
			t.Errorf("%v: a hidden directory with more in it:\n%s", kind, a)
		}
		if !strings.Contains(a, "/tmp/deep/src") || !strings.Contains(a, "/tmp/home writable") {
			t.Errorf("%v: there is too little to compare:\n%s", kind, a)
		}
	}
}

// What hides a directory in which more shows is made once for a session. Somebody
// outside takes it away with the directory.
func TestShellLastsForTheSession(t *testing.T) {
	t.Parallel()
	e := needHolder(t)
	dir := workspace(t)
	spec := sessionSpec(t)
	spec.Table = append(hide(dir+"/shell"), bindRW(dir), shared.Entry{Path: dir + "/shell/in", Access: shared.Private, Why: "tmpfs[0]"})
	write(t, dir+"/shell/key", "secret")
	open, err := e.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close(t.Context())
	script := "cd " + dir + "/shell; cat key; ls; touch new; touch in/f && echo writable; mv ../shell ../away"
	for range 2 {
		if out := run(t, e, spec, shared.Command{Args: []string{"/bin/sh", "-c", script}}).stdout; out != "in\nwritable\n" {
			t.Errorf("a command got %q", out)
		}
		if err := os.RemoveAll(dir + "/shell"); err != nil {
			t.Fatal(err)
		}
		write(t, dir+"/shell/key", "secret")
	}
}

func sorted(lines string) string {
	l := strings.Split(lines, "\n")
	slices.Sort(l)
	return strings.Join(l, "\n")
}

func difference(t *testing.T, a, b string) string {
	dir := workspace(t)
	write(t, dir+"/direct", a)
	write(t, dir+"/holder", b)
	out, err := exec.Command("diff", "-u", dir+"/direct", dir+"/holder").CombinedOutput()
	if len(out) == 0 {
		return fmt.Sprintf("%v\n%s\n%s", err, strconv.Quote(a), strconv.Quote(b))
	}
	return string(out)
}

// A command must not reach its session's holder, wherever the view shows it.
func TestHolderIsOutOfReach(t *testing.T) {
	t.Parallel()
	e := needHolder(t)
	spec := sessionSpec(t)
	dir := spec.Session.Dir
	write(t, dir+"/visible", "visible")
	parent := filepath.Dir(dir)
	for _, mount := range []shared.Entry{bindRW(parent), {Source: parent, Path: "/elsewhere", Why: "bind_paths[0]", Access: shared.ReadOnly}} {
		spec.Table = []shared.Entry{mount}
		at := filepath.Join(mount.Path, filepath.Base(dir))
		expect(t, e, spec, "cat "+at+"/visible; ls "+at+"/holder 2>/dev/null; find "+at+" -type s 2>/dev/null; mv "+at+"/holder "+at+"/x 2>/dev/null && echo moved; true", "visible")
	}
}
