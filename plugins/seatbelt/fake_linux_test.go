package seatbelt

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// These tests run the engine from end to end with a fake in the place of
// sandbox-exec, which isolates nothing. They hold what it is given and what is
// left afterwards; what a profile does is the model's to say, and a Mac's.

// fake is an engine with the fakes, in a directory of its own.
type fake struct {
	t      *testing.T
	dir    string
	engine shared.Engine
}

func newFake(t *testing.T) *fake {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "fake-sandbox-exec")); err != nil {
		t.Fatal(err)
	}
	return &fake{t: t, dir: dir, engine: newEngine(platform{"darwin", filepath.Join(dir, "fake-sandbox-exec")})}
}

// spec is a workspace and a session in a directory of the test's.
func (f *fake) spec() shared.Spec {
	top := f.t.TempDir()
	spec := shared.Spec{
		Home:    filepath.Join(top, "home"),
		Session: shared.Session{ID: "s", Dir: filepath.Join(top, "session")},
		Table:   []shared.Entry{mount(filepath.Join(top, "ws"), shared.ReadWrite, "workspace"), mount(filepath.Join(top, "home/.config/git"), shared.ReadOnly, "bind_paths[0]")},
	}
	for _, dir := range []string{spec.Session.Dir, spec.Table[0].Source, spec.Table[1].Source} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			f.t.Fatal(err)
		}
	}
	return spec
}

func (f *fake) open(spec shared.Spec) shared.Sandbox {
	f.t.Helper()
	sandbox, err := f.engine.Open(f.t.Context(), spec)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { sandbox.Close(context.Background()) })
	return sandbox
}

func command(spec shared.Spec, args ...string) shared.Command {
	return shared.Command{Args: args, Dir: spec.Table[0].Source, Env: []string{"HOME=" + spec.Home, "PATH=/usr/bin:/bin", "X=a b"}}
}

// run runs a command to its end and gives its output and the fake's record.
func (f *fake) run(sandbox shared.Sandbox, cmd shared.Command) (string, shared.Result, record) {
	f.t.Helper()
	out, result := f.end(sandbox, cmd)
	return out, result, f.record()
}

// end runs a command to its end.
func (f *fake) end(sandbox shared.Sandbox, cmd shared.Command) (string, shared.Result) {
	f.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		f.t.Fatal(err)
	}
	defer r.Close()
	process, err := sandbox.Start(f.t.Context(), cmd, shared.Stdio{Stdout: w, Stderr: w})
	w.Close()
	if err != nil {
		f.t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		f.t.Fatal(err)
	}
	result, err := process.Wait(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return string(out), result
}

// record reads and removes the one record that there is.
func (f *fake) record() (r record) {
	f.t.Helper()
	names, err := filepath.Glob(filepath.Join(f.dir, "record-*.json"))
	if err != nil || len(names) != 1 {
		f.t.Fatalf("records: %v, %v", names, err)
	}
	text, err := os.ReadFile(names[0])
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err == nil {
		err = os.Remove(names[0])
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func left(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A command is told of a proxy of its own, which its profile opens, and which is gone with it.
func TestFakeProxy(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	spec := f.spec()
	spec.Network = shared.Network{Mode: shared.NetworkNames, Names: []string{"listed.example"}}
	cmd := command(spec, "/bin/bash", "-c", `u=${HTTP_PROXY#http://}; at=${u#*@}; echo $at
		for password in $(printf %s "${u%@*}" | base64) none; do
			exec 3<>/dev/tcp/${at%:*}/${at#*:} && printf 'CONNECT e.example:443 HTTP/1.1\r\nProxy-Authorization: Basic %s\r\n\r\n' $password >&3 && head -n 1 <&3
		done`)
	cmd.Env = append(cmd.Env, "HTTP_PROXY=http://elsewhere.example")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	process, err := f.open(spec).Start(t.Context(), cmd, shared.Stdio{Stdout: w, Stderr: w})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := process.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	at, said, _ := strings.Cut(string(out), "\n")
	if said != "HTTP/1.1 403 Forbidden\r\nHTTP/1.1 407 Proxy Authentication Required\r\n" {
		t.Errorf("the proxy said %q", out)
	}
	_, port, _ := net.SplitHostPort(at)
	if record := f.record(); !strings.Contains(record.Profile, `(allow network-outbound (remote tcp "localhost:`+port+`"))`) {
		t.Errorf("port %s is not in the profile:\n%s", port, record.Profile)
	}
	told := false
	for e := range process.Events() {
		told = told || e.Kind == shared.EventNetwork && e.Details["name"] == "e.example" && e.Details["reason"] == "no rule allows it"
	}
	if !told {
		t.Error("no event tells of the name")
	}
	// A process that another test has just forked has the listener until it executes its program.
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		c, err := net.Dial("tcp", at)
		if err != nil {
			break
		}
		c.Close()
		if time.Since(begin) > 10*time.Second {
			t.Fatal("the proxy is still there")
		}
	}
	spec.Network.HostPorts = []uint16{5432}
	if _, err := f.engine.Open(t.Context(), spec); !errors.Is(err, shared.ErrUnsupported) || !strings.HasPrefix(err.Error(), "host_ports: ") {
		t.Errorf("ports of the host: %v", err)
	}
}

func TestFakeLaunch(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	spec := f.spec()
	sandbox := f.open(spec)
	out, result, r := f.run(sandbox, command(spec, "sh", "-c", `printf '%s\n' "$HOME" "$TMPDIR" "$X"; ls -A "$HOME"; cat /proc/self/cmdline | tr '\0' ' ' >&2; touch "$TMPDIR/x" "$HOME/kept"; exit 7`, "name", "--", "-f"))
	if !result.Status.Success() && result.Status.Code != 7 {
		t.Fatalf("%+v: %s", result, out)
	}
	base := filepath.Dir(r.Argv[2])
	if filepath.Dir(base) != spec.Session.Dir || !slices.Equal(r.Argv[:3], []string{filepath.Join(f.dir, "fake-sandbox-exec"), "-f", base + "/profile.sb"}) {
		t.Errorf("argv begins with %q", r.Argv[:3])
	}
	tail := r.Argv[slices.Index(r.Argv, "--"):]
	if len(tail) != 7 || tail[1] != "/usr/bin/sh" && tail[1] != "/bin/sh" || !slices.Equal(tail[4:], []string{"name", "--", "-f"}) {
		t.Errorf("argv ends with %q", tail)
	}
	wantEnv := []string{"HOME=" + spec.Session.Dir + "/seatbelt-home", "PATH=/usr/bin:/bin", "X=a b", "TMPDIR=" + base + "/tmp"}
	if !slices.Equal(r.Env, wantEnv) {
		t.Errorf("env is %q, want %q", r.Env, wantEnv)
	}
	if !slices.Equal(r.FDs, []string{"0", "1", "2"}) {
		t.Errorf("descriptors %v", r.FDs)
	}
	if r.Mode.Perm() != 0o600 || r.DirMode.Perm() != 0o700 || r.Dir != spec.Table[0].Source || len(r.Temp) != 0 {
		t.Errorf("profile %v in %v, in directory %s, with %v in TMPDIR", r.Mode, r.DirMode, r.Dir, r.Temp)
	}
	if r.SID != r.PID || r.PGID != r.PID {
		t.Errorf("session %d and group %d of process %d", r.SID, r.PGID, r.PID)
	}
	for _, m := range spec.Table {
		if strings.Contains(r.Profile, m.Source) {
			t.Errorf("%s is text of the profile", m.Source)
		}
	}
	model, err := parseSBPL(r.Profile, r.Parameters)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{spec.Table[0].Source + "/x": true, base + "/tmp/x": true, spec.Session.Dir + "/seatbelt-home/x": true, base + "/profile.sb": false, spec.Home + "/x": false} {
		if got := model.Decide(asDocumented, sbplAccess{Operation: "file-write-create", Path: path}).Allow; got != want {
			t.Errorf("writing %s: %v", path, got)
		}
	}
	// What was the command's alone is gone; what is the session's is there.
	if names := left(t, spec.Session.Dir); !slices.Equal(names, []string{"seatbelt-home"}) {
		t.Errorf("left in the session: %v", names)
	}
	if target, err := os.Readlink(spec.Session.Dir + "/seatbelt-home/.config/git"); err != nil || target != spec.Table[1].Source {
		t.Errorf("the link to what is bound in the home: %q, %v", target, err)
	}
	if _, _, second := f.run(sandbox, command(spec, "test", "-f", "../session/seatbelt-home/kept")); len(second.Temp) != 0 {
		t.Error("a second command finds the first one's temporary files")
	}
}

func TestFakeEnds(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	spec := f.spec()
	sandbox := f.open(spec)
	for script, want := range map[string]shared.ExitStatus{
		"exit 0": {}, "exit 71": {Code: 71}, "exit 255": {Code: 255}, "kill -TERM $$": {Signal: syscall.SIGTERM}, "kill -KILL $$": {Signal: syscall.SIGKILL},
	} {
		cmd := command(spec)
		cmd.Args, cmd.Script = nil, script
		if out, result, _ := f.run(sandbox, cmd); result.Status.Code != want.Code || result.Status.Signal != want.Signal {
			t.Errorf("%s: %+v %s", script, result, out)
		}
	}
	cmd := command(spec, "sh", "-c", "trap '' TERM; echo set; sleep 1000 & sleep 1000")
	cmd.Timeout, cmd.Grace = 200*time.Millisecond, 100*time.Millisecond
	out, result := f.end(sandbox, cmd)
	for out == "" && cmd.Timeout < time.Minute { // ended before it could ignore anything
		cmd.Timeout *= 4
		out, result = f.end(sandbox, cmd)
	}
	if out != "set\n" || !result.TimedOut || result.Status.Signal != syscall.SIGKILL {
		t.Errorf("%+v %q", result, out)
	}
	if names := left(t, spec.Session.Dir); !slices.Equal(names, []string{"seatbelt-home"}) {
		t.Errorf("left in the session: %v", names)
	}
}

func TestFakeRefusals(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	spec := f.spec()
	unseen := filepath.Join(filepath.Dir(spec.Home), "program")
	if err := os.WriteFile(unseen, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	hiddenLink := filepath.Join(filepath.Dir(spec.Home), "link")
	if err := os.Symlink("/bin/sh", hiddenLink); err != nil {
		t.Fatal(err)
	}
	linked := filepath.Join(spec.Table[0].Source, "key")
	if err := os.WriteFile(linked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(linked, linked+"2"); err != nil {
		t.Fatal(err)
	}
	sandbox := f.open(spec)
	dyld := command(spec, "true")
	dyld.Env = append(dyld.Env, "DYLD_INSERT_LIBRARIES=/x")
	elsewhere := command(spec, "program")
	elsewhere.Env[1] = "PATH=" + filepath.Dir(unseen)
	for name, tt := range map[string]struct {
		cmd  shared.Command
		kind error
		says string
	}{
		"missing":            {command(spec, "no-such-program"), shared.ErrNotFound, "not found"},
		"not shown":          {command(spec, unseen), shared.ErrNotExecutable, "does not show"},
		"a link, not shown":  {command(spec, hiddenLink), shared.ErrNotExecutable, "does not show"},
		"not shown, by PATH": {elsewhere, shared.ErrNotFound, "not found"},
		"loader's variable":  {dyld, shared.ErrUnsupported, "DYLD_INSERT_LIBRARIES"},
	} {
		if _, err := sandbox.Start(t.Context(), tt.cmd, shared.Stdio{}); !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	denied := spec
	denied.Table = append(slices.Clone(spec.Table), hidden(linked))
	if _, err := f.open(denied).Start(t.Context(), command(spec, "true"), shared.Stdio{}); !errors.Is(err, shared.ErrInvalidSpec) || !strings.Contains(err.Error(), "2 names") {
		t.Errorf("a hidden file with two names: %v", err)
	}
	if names := left(t, spec.Session.Dir); len(names) > 1 {
		t.Errorf("left in the session: %v", names)
	}
	nested := f.spec()
	nested.Table[0].Source = filepath.Join(nested.Table[0].Source, "nested")
	nested.Table[0].Path = nested.Table[0].Source
	if err := os.Mkdir(nested.Table[0].Source, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := f.engine.Open(t.Context(), nested); !errors.Is(err, shared.ErrUnavailable) || !strings.Contains(err.Error(), "in a sandbox already") {
		t.Errorf("a profile that is not taken: %v", err)
	}
	reach := f.spec()
	reach.Table[0] = mount(f.dir, shared.ReadWrite, "workspace")
	if _, err := f.engine.Open(t.Context(), reach); !errors.Is(err, shared.ErrInvalidSpec) || !strings.Contains(err.Error(), "launcher") {
		t.Errorf("a launcher within reach: %v", err)
	}
}

// Without a session nothing is shared, and nothing is left.
func TestFakeWithoutSession(t *testing.T) {
	f := newFake(t)
	spec := f.spec()
	spec.Session = shared.Session{}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	sandbox := f.open(spec)
	_, _, r := f.run(sandbox, command(spec, "true"))
	if !strings.HasPrefix(r.Argv[2], temp+"/.sbxhost-seatbelt-") || !slices.Contains(r.Env, "HOME="+filepath.Dir(r.Argv[2])+"/home") {
		t.Errorf("%q, %q", r.Argv[2], r.Env)
	}
	if names := left(t, temp); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
}

// A command of the session cannot have links made outside by leaving one in the
// home.
func TestFakeHomeIsNotFollowed(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	spec := f.spec()
	outside := t.TempDir()
	home := filepath.Join(spec.Session.Dir, "seatbelt-home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(home, ".config")); err != nil {
		t.Fatal(err)
	}
	if process, err := f.open(spec).Start(t.Context(), command(spec, "true"), shared.Stdio{}); err == nil {
		process.Wait(t.Context())
	}
	if names := left(t, outside); len(names) != 0 {
		t.Errorf("made outside: %v", names)
	}
}

// A root caller's command runs as another user, who must be able to read its
// profile and use its directories, and nobody else.
func TestFakeUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can run commands as others")
	}
	f := newFake(t)
	spec := f.spec()
	user := shared.User{UID: 65534, GID: 65534}
	spec.User = &user
	spec.Home = filepath.Join(filepath.Dir(spec.Session.Dir), "home")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	launcher := filepath.Join(f.dir, "fake-sandbox-exec")
	if err := os.Remove(launcher); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("cp", self, launcher).Run(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{f.dir, filepath.Dir(f.dir), filepath.Dir(spec.Session.Dir), filepath.Dir(filepath.Dir(spec.Session.Dir)), spec.Session.Dir, spec.Table[0].Source} {
		if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil { // what the launcher lies in is no other user's to replace
			t.Fatal(err)
		}
	}
	out, result, r := f.run(f.open(spec), command(spec, "sh", "-c", `id -u; echo x >"$TMPDIR/x" && echo x >"$HOME/x" && test -h "$HOME/.config/git" && stat -c '%u %a' "$TMPDIR" "$HOME"`))
	if want := "65534\n65534 700\n65534 700\n"; !result.Status.Success() || out != want || r.Mode.Perm() != 0o600 {
		t.Errorf("%+v, profile %v: %q, want %q", result, r.Mode, out, want)
	}
}
