package bwrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// probed is one engine for all tests, and what it says of this machine.
var probed = sync.OnceValues(func() (shared.Engine, shared.Probe) {
	e := New()
	p, err := e.Probe(context.Background())
	if err != nil {
		p.Reason = err.Error()
	}
	return e, p
})

// needBwrap skips where there is no bubblewrap that works, unless the
// environment says that there must be one.
func needBwrap(t *testing.T) shared.Engine {
	t.Helper()
	e, p := probed()
	if !p.Ready {
		if required("bwrap") {
			t.Fatalf("bwrap is required and not ready: %s; %s", p.Reason, p.Fix)
		}
		t.Skipf("bwrap is not ready: %s; %s", p.Reason, p.Fix)
	}
	return e
}

// required reports whether the environment says that a part must be there.
func required(part string) bool {
	return slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), part)
}

// env is a plain environment.
var env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"}

// outcome is all that a caller learns of a command.
type outcome struct {
	shared.Result
	stdout, stderr string
	events         []shared.Event
}

// run runs one command to its end.
func run(t *testing.T, e shared.Engine, spec shared.Spec, cmd shared.Command) outcome {
	t.Helper()
	out, err := tryRun(t, e, spec, cmd)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return out
}

func tryRun(t *testing.T, e shared.Engine, spec shared.Spec, cmd shared.Command) (out outcome, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	sandbox, err := e.Open(ctx, spec)
	if err != nil {
		return out, err
	}
	defer sandbox.Close(context.WithoutCancel(ctx))
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	if cmd.Env == nil {
		cmd.Env = env
	}
	outR, outW := pipe(t)
	errR, errW := pipe(t)
	process, err := sandbox.Start(ctx, cmd, shared.Stdio{Stdout: outW, Stderr: errW})
	outW.Close()
	errW.Close()
	if err != nil {
		return out, err
	}
	stderr := make(chan string)
	go func() {
		b, _ := io.ReadAll(errR)
		stderr <- string(b)
	}()
	b, _ := io.ReadAll(outR)
	out.stdout, out.stderr = string(b), <-stderr
	out.Result, err = process.Wait(ctx)
	for ev := range process.Events() {
		out.events = append(out.events, ev)
	}
	return out, err
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// sh runs shell text and returns what it wrote; it must succeed.
func sh(t *testing.T, e shared.Engine, spec shared.Spec, text string) string {
	t.Helper()
	out := run(t, e, spec, shared.Command{Args: []string{"/bin/sh", "-c", text}})
	if !out.Status.Success() {
		t.Fatalf("%s\n%v\nstdout: %s\nstderr: %s", text, out.Status, out.stdout, out.stderr)
	}
	return out.stdout
}

// expect runs shell text whose output is known.
func expect(t *testing.T, e shared.Engine, spec shared.Spec, text, want string) {
	t.Helper()
	if got := strings.TrimSpace(sh(t, e, spec, text)); got != want {
		t.Errorf("%s\n got: %q\nwant: %q", text, got, want)
	}
}

// workspace is a directory that whoever runs the tests owns.
func workspace(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func bindRW(dir string) shared.Entry {
	return shared.Entry{Source: dir, Path: dir, Access: shared.ReadWrite, Why: "workspace"}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestMinimalShowsNothingOfTheHost(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	outside := workspace(t)
	write(t, filepath.Join(outside, "secret"), "secret")

	got := sh(t, e, shared.Spec{}, `cd / && echo *`)
	for _, name := range strings.Fields(got) {
		if !slices.Contains([]string{"bin", "dev", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "proc", "run", "sbin", "tmp", "usr", "var"}, name) {
			t.Errorf("/%s is visible", name)
		}
	}
	hidden := []string{"/etc/shadow", "/etc/gshadow", "/etc/machine-id", "/etc/sudoers", "/etc/ssh", "/etc/ssl/private", "/home", "/root", "/sys",
		"/var/log", "/var/lib", "/boot", "/mnt", "/dev/shm/x", "/dev/kmsg", "/dev/mem", outside}
	expect(t, e, shared.Spec{}, "for p in "+strings.Join(hidden, " ")+"; do test -e $p && echo $p; done; echo done", "done")
	expect(t, e, shared.Spec{}, "ls -A /tmp /run /dev/shm", "/dev/shm:\n\n/run:\n\n/tmp:")
	// The control: the same action succeeds when it is granted.
	spec := shared.Spec{Table: []shared.Entry{{Source: outside, Path: outside, Why: "bind_paths[0]", Access: shared.ReadOnly}}}
	expect(t, e, spec, "cat "+outside+"/secret", "secret")
}

func TestNothingIsWritableButMemory(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	for _, spec := range []shared.Spec{{}, {Filesystem: shared.FilesystemHost}} {
		expect(t, e, spec, "for d in / /usr /etc /dev /run /var /proc/sys/kernel /bin/; do touch $d/x 2>/dev/null && echo $d; done; echo done", "done")
		expect(t, e, spec, "for d in /tmp /var/tmp /dev/shm; do rm -f $d/sbxhost-x; echo hi > $d/sbxhost-x && cat $d/sbxhost-x; done", "hi\nhi\nhi")
	}
	if _, err := os.Stat("/tmp/sbxhost-x"); err == nil {
		t.Error("the private /tmp is the host's")
	}
}

func TestKernelControlsAreReadOnly(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	for _, spec := range []shared.Spec{{}, {Filesystem: shared.FilesystemHost}} {
		expect(t, e, spec, `for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/sys/kernel/hostname /proc/mtrr /proc/irq/default_smp_affinity; do
			( : >>$f ) 2>/dev/null && echo $f is writable; done; echo done`, "done")
		expect(t, e, spec, `( : <>/proc/kcore ) 2>/dev/null && echo open; head -c1 /proc/kcore /proc/kmsg 2>/dev/null; echo done`, "done")
	}
}

func TestProcessIsConfined(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	status := sh(t, e, shared.Spec{}, "cat /proc/self/status")
	for _, line := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if !strings.Contains(status, line+":\t0000000000000000\n") {
			t.Errorf("%s is not empty:\n%s", line, status)
		}
	}
	if !strings.Contains(status, "NoNewPrivs:\t1\n") {
		t.Error("new privileges can be gained")
	}
	want := fmt.Sprintf("%d %d", os.Getuid(), os.Getgid())
	expect(t, e, shared.Spec{}, "echo $(id -u) $(id -g)", want)
	expect(t, e, shared.Spec{}, "hostname 2>/dev/null || cat /proc/sys/kernel/hostname", "localhost")
	expect(t, e, shared.Spec{}, "tr '\\0' ' ' </proc/1/cmdline | cut -d' ' -f2", "sbxhost-init")
	expect(t, e, shared.Spec{}, "ulimit -c; ulimit -Hc", "0\n0")
	// Nothing of the engine is open in the command.
	if got := run(t, e, shared.Spec{}, shared.Command{Args: []string{"/bin/ls", "/proc/self/fd"}}).stdout; got != "0\n1\n2\n3\n" { // 3 is ls's own
		t.Errorf("open descriptors: %q", got)
	}

	names := []string{"user", "pid", "ipc", "uts", "mnt", "cgroup", "net"}
	inside := strings.Fields(sh(t, e, shared.Spec{}, "for n in "+strings.Join(names, " ")+"; do readlink /proc/self/ns/$n; done"))
	for i, ns := range names {
		host, err := os.Readlink("/proc/self/ns/" + ns)
		if err != nil {
			t.Fatal(err)
		}
		if i >= len(inside) || inside[i] == host {
			t.Errorf("the %s namespace is the host's: %q", ns, inside)
		}
	}
	expect(t, e, shared.Spec{}, "command -v unshare >/dev/null || { echo refused; exit; }; unshare -U true 2>/dev/null && echo nested || echo refused", "refused")
	processes := strings.Fields(sh(t, e, shared.Spec{}, "ls /proc | grep '^[0-9]*$' | wc -l"))
	if n, _ := strconv.Atoi(processes[0]); n > 5 {
		t.Errorf("%d processes are visible", n)
	}
}

func TestEnvironmentIsExact(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	cmd := shared.Command{Args: []string{"/usr/bin/env"}, Env: []string{"A=1", "LD_X=2", "B=with\nnewline"}}
	if got, want := run(t, e, shared.Spec{}, cmd).stdout, "A=1\nLD_X=2\nB=with\nnewline\n"; got != want {
		t.Errorf("env: %q, want %q", got, want)
	}
	cmd.Env = []string{}
	if got := run(t, e, shared.Spec{}, cmd).stdout; got != "" {
		t.Errorf("empty env: %q", got)
	}
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	connect := shared.Command{Args: []string{"/bin/bash", "-c", fmt.Sprintf("exec 2>/dev/null; (: </dev/tcp/127.0.0.1/%d) && echo reached || echo refused", port)}}
	interfaces := "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"

	expect(t, e, shared.Spec{}, interfaces, "lo")
	if got := run(t, e, shared.Spec{}, connect).stdout; got != "refused\n" {
		t.Errorf("network none: %q", got)
	}
	host := shared.Spec{Network: shared.Network{Mode: shared.NetworkHost}}
	if got := run(t, e, host, connect).stdout; got != "reached\n" {
		t.Errorf("network host: %q", got)
	}
	want, err := exec.Command("/bin/sh", "-c", interfaces).Output()
	if err != nil {
		t.Fatal(err)
	}
	expect(t, e, host, interfaces, strings.TrimSpace(string(want)))
}

func TestHome(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	dir := workspace(t)
	write(t, filepath.Join(dir, "gitconfig"), "mine")
	spec := shared.Spec{Home: "/home/somebody", Limits: shared.Limits{TempSize: 1 << 20},
		Table: []shared.Entry{{Source: filepath.Join(dir, "gitconfig"), Path: "/home/somebody/.gitconfig", Why: "bind_paths[0]", Access: shared.ReadOnly}}}
	expect(t, e, spec, `cd /home/somebody && ls -A && stat -c %a . && echo x > new && cat new .gitconfig && (echo >> .gitconfig) 2>/dev/null || echo refused`,
		".gitconfig\n700\nx\nminerefused")
	// The size cap, in every private place.
	for _, place := range []string{"/home/somebody", "/tmp", "/dev/shm"} {
		expect(t, e, spec, "head -c 2000000 /dev/zero > "+place+"/big 2>/dev/null; stat -c %s "+place+"/big", "1048576")
	}
	expect(t, e, spec, "ls -A /home/somebody", ".gitconfig")
}

func TestToolsWork(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	dir := workspace(t)
	write(t, dir+"/Makefile", "all:\n\t@echo made\n")
	spec := shared.Spec{Home: "/home/somebody", Table: []shared.Entry{bindRW(dir)}}
	for _, tt := range []struct{ tool, text, want string }{
		{"getent", "getent passwd root | cut -d: -f1", "root"},
		{"awk", "echo 1 2 | awk '{print $2}'", "2"},
		{"make", "make -s -C " + dir, "made"},
		{"python3", "python3 -c 'import ssl, tempfile, multiprocessing; tempfile.TemporaryFile(); print(multiprocessing.Pool(1).map(abs, [-3]))'", "[3]"},
		{"perl", "perl -e 'print getpwuid(0).q()'", "root"},
		{"git", "cd " + dir + " && git init -q . && git status --porcelain", "?? Makefile"},
		{"java", "java -version 2>&1 | grep -c Runtime", "1"},
		{"date", "TZ= date +%Z", "UTC"},
		{"bash", "bash -lc 'echo login'", "login"},
	} {
		if _, err := exec.LookPath(tt.tool); err != nil {
			t.Logf("%s is not installed", tt.tool)
			continue
		}
		expect(t, e, spec, tt.text, tt.want)
	}
}

func TestLongScript(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	script := strings.Repeat(": padding padding padding padding\n", 6000) + "echo $0 $1; exit 7\n"
	out := run(t, e, shared.Spec{}, shared.Command{Script: script, Args: []string{"one"}})
	if out.Status.Code != 7 || !strings.HasSuffix(out.stdout, " one\n") {
		t.Errorf("%v %q %q", out.Status, out.stdout, out.stderr)
	}
}

func TestStatusAndErrors(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	if out := run(t, e, shared.Spec{}, shared.Command{Args: []string{"/bin/sh", "-c", "exit 143"}}); out.Status != (shared.ExitStatus{Code: 143}) {
		t.Errorf("%+v", out.Status)
	}
	if out := run(t, e, shared.Spec{}, shared.Command{Args: []string{"/bin/sh", "-c", "kill -TERM $$"}}); out.Status != (shared.ExitStatus{Signal: syscall.SIGTERM}) {
		t.Errorf("%+v", out.Status)
	}
	if _, err := tryRun(t, e, shared.Spec{}, shared.Command{Args: []string{"sbxhost-no-such-command"}}); !errors.Is(err, shared.ErrNotFound) {
		t.Errorf("absent: %v", err)
	}
	if _, err := tryRun(t, e, shared.Spec{}, shared.Command{Args: []string{"/etc/passwd"}}); !errors.Is(err, shared.ErrNotExecutable) {
		t.Errorf("not executable: %v", err)
	}
	cmd := shared.Command{Args: []string{"/bin/sh", "-c", "trap 'echo term; exit 3' TERM; echo; while :; do sleep 0.05; done"}, Timeout: 300 * time.Millisecond, Grace: time.Minute}
	out := run(t, e, shared.Spec{}, cmd)
	for out.stdout == "" && cmd.Timeout < 20*time.Second { // a machine that is slow now
		cmd.Timeout *= 4
		out = run(t, e, shared.Spec{}, cmd)
	}
	if !out.TimedOut || out.stdout != "\nterm\n" {
		t.Errorf("%+v", out)
	}
}
