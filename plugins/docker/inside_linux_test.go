package docker

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/moby/client"

	"github.com/sbxhost/sbxhost/plugins/docker/internal/plan"
	"github.com/sbxhost/sbxhost/shared"
)

// dir makes a directory that commands of every user can enter and write to.
func dir(t *testing.T, files ...string) string {
	t.Helper()
	top, err := os.MkdirTemp("", "docker-view-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	os.Chmod(top, 0o777)
	for _, f := range files {
		path := filepath.Join(top, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(f+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return top
}

func TestConfined(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Spec{Home: "/home/me", Options: rawOptions(t, opts{})})
	cmd := script(`env; echo --; cat /proc/self/status; echo --
		touch /made 2>&1; touch /bin/made 2>&1; echo --
		touch /tmp/f /var/tmp/f /home/me/f /dev/shm/f && echo writable; echo --
		ip link 2>&1 | grep -c '^[0-9]'; ls -A /.sbxhost/line; ls /.sbxhost; echo --
		ls -l /proc/self/fd | grep -c /; mount -t tmpfs x /tmp 2>&1; hostname`)
	cmd.Env = []string{"PATH=/bin", "SECRET=value"}
	out := runCommand(t, s, cmd, "")
	part := strings.Split(out.stdout, "--\n")
	if len(part) != 6 {
		t.Fatalf("got %+v", out)
	}
	env := strings.Fields(part[0])
	slices.Sort(env)
	// The shell sets the last three itself.
	env = slices.DeleteFunc(env, func(e string) bool {
		return strings.HasPrefix(e, "PWD=") || strings.HasPrefix(e, "SHLVL=") || strings.HasPrefix(e, "_=")
	})
	if !slices.Equal(env, []string{"PATH=/bin", "SECRET=value"}) {
		t.Errorf("environment: %q", env)
	}
	for _, want := range []string{"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(part[1], want) {
			t.Errorf("no %q in %s", want, part[1])
		}
	}
	if strings.Count(part[2], "Read-only file system") != 2 {
		t.Errorf("the root file system: %s", part[2])
	}
	if part[3] != "writable\n" {
		t.Errorf("private directories: %s", part[3])
	}
	if part[4] != "1\ninit\nline\n" {
		t.Errorf("links, and what the init has left to find: %s", part[4])
	}
	if !strings.Contains(part[5], "ermission denied") && !strings.Contains(part[5], "not permitted") {
		t.Errorf("mounting: %s", part[5])
	}
}

// TestInspectShowsNothing looks for what is the command's in what the daemon
// shows everybody who may use it.
func TestInspectShowsNothing(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Spec{})
	cmd := script("echo ready; sleep 1000; : hidden-argument")
	cmd.Env = append(cmd.Env, "TOKEN=hidden-value")
	p, _ := started(t, s, cmd)
	defer p.Signal(t.Context(), syscall.SIGKILL)
	looked := 0
	for _, id := range containers(t) {
		got, err := daemonFor(t).Client.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
		if err != nil {
			continue // another test's, gone meanwhile
		}
		looked++
		if strings.Contains(string(got.Raw), "hidden-") {
			t.Errorf("the daemon shows %s", got.Raw)
		}
	}
	if looked == 0 {
		t.Error("no container was looked at")
	}
}

func TestMounts(t *testing.T) {
	t.Parallel()
	ws := dir(t, "file", "guarded/hooks/pre", "sub/deep")
	other := dir(t, "data")
	spec := shared.Spec{Options: rawOptions(t, opts{}), Table: []shared.Entry{
		{Source: ws, Path: "/workspace", Access: shared.ReadWrite, Why: "workspace"},
		{Source: ws + "/guarded", Path: "/workspace/guarded", Why: "protected", Access: shared.ReadOnly},
		{Source: other, Path: other, Why: "bind_paths[0]", Access: shared.ReadOnly},
		{Source: other + "/data", Path: "/single", Why: "bind_paths[1]", Access: shared.ReadOnly},
		{Path: "/workspace/sub", Access: shared.Private, Why: "bind_paths[2]"},
		{Source: other, Path: "/over", Access: shared.Overlay, Degradable: true, Why: "bind_paths[3]"},
	}}
	s := open(t, spec)
	out := sh(t, s, `cat /workspace/file /single `+other+`/data; ls /workspace/sub; echo new > /workspace/new
		for f in /workspace/guarded/hooks/pre /workspace/guarded/new `+other+`/data /single /over/data; do (echo x > $f) 2>/dev/null && echo wrote $f; done
		mv /workspace/guarded /workspace/moved 2>/dev/null && echo moved; echo x > /workspace/sub/f`)
	if out.stdout != "file\ndata\ndata\n" {
		t.Errorf("got %s%s", out.stdout, out.stderr)
	}
	if got, err := os.ReadFile(ws + "/new"); string(got) != "new\n" {
		t.Errorf("written inside: %q, %v", got, err)
	}
	if _, err := os.Stat(ws + "/sub/f"); err == nil {
		t.Error("the tmpfs let a file through")
	}
	// The host reports what an engine does not claim.
	told := slices.ContainsFunc(spec.Without(info.Features), func(l shared.Loss) bool { return l.Accepted && l.Attribute == "bind_paths[3]" })
	if !told {
		t.Error("the overlay became read-only and nobody says so")
	}
}

func TestUser(t *testing.T) {
	t.Parallel()
	ws := dir(t)
	user, inside := them()
	s := open(t, shared.Spec{Options: rawOptions(t, opts{}), Home: "/home/them",
		User:  &user,
		Table: []shared.Entry{{Source: ws, Path: ws, Access: shared.ReadWrite, Why: "workspace"}}})
	out := sh(t, s, `echo $(id -u):$(id -g) $(id -G); touch `+ws+`/f ~/f /home/them/f; echo again > /dev/stderr; cat /proc/1/environ`)
	if !strings.HasPrefix(out.stdout, inside+" ") || len(user.Groups) > 0 && !strings.Contains(out.stdout, " 4244\n") {
		t.Errorf("got %+v", out)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(ws+"/f", &st); err != nil || st.Uid != user.UID || st.Gid != user.GID {
		t.Errorf("a file made inside: %+v, %v", st, err)
	}
	if !strings.Contains(out.stderr, "again") {
		t.Errorf("its own stderr, opened by name: %q", out.stderr)
	}
}

func TestUserOption(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Spec{Options: rawOptions(t, opts{"user": "tester"})})
	if out := sh(t, s, "id -un; id -u"); out.stdout != "tester\n4242\n" {
		t.Errorf("got %+v", out)
	}
}

func TestHidden(t *testing.T) {
	t.Parallel()
	ws := dir(t, ".env", "secrets/key", "open")
	spec := shared.Spec{Options: rawOptions(t, opts{}),
		Table: []shared.Entry{{Source: ws, Path: "/w", Access: shared.ReadWrite, Why: "workspace"}}}
	unhidden := open(t, spec)
	spec.Table = append(spec.Table, hideAll("/w/.env", "/w/secrets", "/w/gone")...)
	s := open(t, spec)
	cmd := script(`cat /w/.env /w/secrets/key /w/open; echo changed > /w/.env; echo changed > /w/secrets/key; rm -f /w/.env; mv /w/secrets /w/s; ls /w/secrets; true`)
	out := runCommand(t, s, cmd, "")
	if out.stdout != "open\n" {
		t.Errorf("hidden: %s%s", out.stdout, out.stderr)
	}
	for _, f := range []string{".env", "secrets/key"} {
		if got, err := os.ReadFile(filepath.Join(ws, f)); string(got) != f+"\n" {
			t.Errorf("%s on the host: %q, %v", f, got, err)
		}
	}
	if _, err := os.Lstat(ws + "/gone"); err == nil {
		t.Error("what is hidden and not there left a stub")
	}
	// The control: where nothing is hidden all of it is there.
	if out := sh(t, unhidden, "cat /w/.env /w/secrets/key"); out.stdout != ".env\nsecrets/key\n" {
		t.Errorf("not hidden: %+v", out)
	}
}

// TestAboveHidden has a command try to move what lies above a hidden path, so
// that the next command's table would miss it.
func TestAboveHidden(t *testing.T) {
	t.Parallel()
	ws := dir(t, "a/b/secret", "a/free/f", "g/h/guarded/f")
	s := open(t, shared.Spec{Options: rawOptions(t, opts{}), Table: []shared.Entry{
		{Source: ws, Path: "/w", Access: shared.ReadWrite, Why: "workspace"},
		{Source: ws + "/g/h/guarded", Path: "/w/g/h/guarded", Why: "protected", Access: shared.ReadOnly},
		hideAll("/w/a/b/secret")[0], hideAll("/w/none/at/all")[0],
	}})
	cmd := script(`for d in a a/b g g/h g/h/guarded; do mv /w/$d /w/moved 2>/dev/null && echo moved $d; done
		mv /w/a/free /w/elsewhere && echo fine > /w/a/b/new`)
	if out := runCommand(t, s, cmd, ""); out.stdout != "" || out.Status.Code != 0 {
		t.Errorf("got %+v", out)
	}
	if got, err := os.ReadFile(ws + "/a/b/new"); string(got) != "fine\n" {
		t.Errorf("beside what is hidden: %q, %v", got, err)
	}
}

func TestRefusedMounts(t *testing.T) {
	t.Parallel()
	ws := dir(t, "file", "real/f")
	if err := os.Symlink("real", ws+"/link"); err != nil {
		t.Fatal(err)
	}
	e := newEngine(t)
	socket := strings.TrimPrefix(e.surroundings.Getenv("DOCKER_HOST"), "unix://")
	workspace := shared.Entry{Source: ws, Path: "/w", Access: shared.ReadWrite, Why: "workspace"}
	for name, tt := range map[string]struct {
		mount shared.Entry
		kind  error
		says  string
	}{
		"the daemon's socket": {shared.Entry{Source: socket, Path: "/s", Why: "b", Access: shared.ReadOnly}, shared.ErrDenied, "socket"},
		"above the socket":    {shared.Entry{Source: filepath.Dir(socket), Path: "/s", Why: "b", Access: shared.ReadOnly}, shared.ErrDenied, "socket"},
		"gone":                {shared.Entry{Source: ws + "/nosuch", Path: "/s", Why: "b", Access: shared.ReadOnly}, shared.ErrInvalidSpec, "does not exist"},
		"a symlink":           {shared.Entry{Source: ws + "/link", Path: "/s", Why: "b", Access: shared.ReadOnly}, shared.ErrInvalidSpec, "symlink"},
		"no place":            {shared.Entry{Source: ws + "/real", Path: "/w/nosuch", Why: "b", Access: shared.ReadOnly}, shared.ErrInvalidSpec, "does not exist"},
		"through a symlink":   {shared.Entry{Source: ws + "/real/f", Path: "/w/link/f", Why: "b", Access: shared.ReadOnly}, shared.ErrInvalidSpec, "symlink"},
		"file on directory":   {shared.Entry{Source: ws + "/file", Path: "/w/real", Why: "b", Access: shared.ReadOnly}, shared.ErrInvalidSpec, "both"},
		"the init's":          {shared.Entry{Source: ws, Path: "/.sbxhost/line", Why: "b", Access: shared.ReadOnly}, shared.ErrInvalidSpec, "engine provides"},
		"proc":                {shared.Entry{Source: ws, Path: "/proc/x", Why: "b", Access: shared.ReadOnly}, shared.ErrInvalidSpec, "engine provides"},
	} {
		_, err := e.Open(t.Context(), shared.Spec{Options: rawOptions(t, opts{}), Table: []shared.Entry{workspace, tt.mount}})
		if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) || !strings.HasPrefix(err.Error(), "b: ") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := os.Lstat(ws + "/nosuch"); err == nil {
		t.Error("a mount that was refused left a directory behind")
	}
}

func TestWritableRoot(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Spec{Options: rawOptions(t, opts{"writable_root": true})})
	if out := sh(t, s, "echo x > /bin/made && cat /bin/made"); out.stdout != "x\n" {
		t.Errorf("got %+v", out)
	}
	if out := sh(t, s, "cat /bin/made"); out.Status.Success() {
		t.Errorf("the next command sees it: %+v", out)
	}
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Spec{Network: shared.Network{Mode: shared.NetworkHost}})
	if out := sh(t, s, "ip addr"); !strings.Contains(out.stdout, "eth0") {
		t.Errorf("got %+v", out)
	}
}

// TestMemoryIsTakenFromCommands has the kernel choose a process of a command, and not
// the init that tells of its end.
func TestMemoryIsTakenFromCommands(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Spec{})
	// The score of the init is put back once it has forked.
	out := sh(t, s, `n=0; until d=$(($(cat /proc/self/oom_score_adj) - $(cat /proc/1/oom_score_adj))); [ $d = 500 ] || [ $n = 500 ]; do n=$((n+1)); done; echo $d`)
	if out.stdout != "500\n" {
		t.Errorf("got %+v", out)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	if withRootless() {
		return // TestRootlessLimits has what becomes of them
	}
	s := open(t, shared.Spec{Options: rawOptions(t, opts{}),
		Limits: shared.Limits{Memory: 64 << 20, CPUs: 0.5, PIDs: 20, OpenFiles: 100, TempSize: 1 << 20}})
	out := sh(t, s, `ulimit -n; head -c 5000000 /dev/zero > /tmp/big; wc -c < /tmp/big`)
	if lines := strings.Fields(out.stdout); !slices.Equal(lines, []string{"100", strconv.Itoa(1 << 20)}) {
		t.Errorf("open files, and bytes in /tmp: %+v", out)
	}
	out = sh(t, s, `i=0; while [ $i -lt 100 ]; do sleep 30 & i=$((i+1)); echo $i; done`)
	if lines := strings.Fields(out.stdout); out.Status.Success() || len(lines) > 20+plan.InitThreads {
		t.Errorf("%d processes at once, %v", len(lines), out.Status)
	}
	// One process cannot take it all: the shell lives to tell.
	out = sh(t, s, `head -c 200000000 /dev/zero | tail | wc -c; echo on`)
	if strings.Contains(out.stdout, "200000000") {
		t.Errorf("200 MB of memory were had: %+v", out)
	}
	for _, limit := range []string{"memory", "cpus", "pids", "open_files", "temp_size"} {
		if !slices.ContainsFunc(out.events, func(e shared.Event) bool { return e.Details["limit"] == limit && e.Details["hold"] == "enforced" }) {
			t.Errorf("nobody says what holds %s: %v", limit, out.events)
		}
	}
}
