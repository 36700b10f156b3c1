package bwrap

import (
	"context"
	"errors"
	"fmt"
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

	"github.com/sbxhost/sbxhost/plugins/internal/inside"
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

func TestMinimalShowsNothingOfTheHost(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	outside := inside.Workspace(t)
	inside.Write(t, filepath.Join(outside, "secret"), "secret")

	got := inside.Sh(t, e, shared.Spec{}, `cd / && echo *`)
	for _, name := range strings.Fields(got) {
		if !slices.Contains([]string{"bin", "dev", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "proc", "run", "sbin", "sys", "tmp", "usr", "var"}, name) {
			t.Errorf("/%s is visible", name)
		}
	}
	hidden := []string{"/etc/shadow", "/etc/gshadow", "/etc/machine-id", "/etc/sudoers", "/etc/ssh", "/etc/ssl/private", "/home", "/root", "/sys/class", "/sys/module", "/sys/devices/virtual", "/sys/fs/bpf", "/sys/fs/cgroup/*",
		"/var/log", "/var/cache", "/var/lib/systemd", "/var/lib/postgresql", "/boot", "/mnt", "/dev/shm/x", "/dev/kmsg", "/dev/mem", outside}
	inside.Expect(t, e, shared.Spec{}, "for p in "+strings.Join(hidden, " ")+"; do test -e $p && echo $p; done; echo done", "done")
	inside.Expect(t, e, shared.Spec{}, "ls -A /tmp /run /dev/shm", "/dev/shm:\n\n/run:\nlock\npostgresql\nuser\n\n/tmp:")
	// The control: the same action succeeds when it is granted.
	spec := shared.Spec{Table: []shared.Entry{{Source: outside, Path: outside, Why: "bind_paths[0]", Access: shared.ReadOnly}}}
	inside.Expect(t, e, spec, "cat "+outside+"/secret", "secret")
}

func TestNothingIsWritableButMemory(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	for _, spec := range []shared.Spec{{}, {Filesystem: shared.FilesystemHost}} {
		inside.Expect(t, e, spec, "for d in / /usr /etc /dev /var /var/lib/dpkg /proc/sys/kernel /bin/; do touch $d/x 2>/dev/null && echo $d; done; echo done", "done")
		inside.Expect(t, e, spec, "for d in /tmp /var/tmp /dev/shm /run; do rm -f $d/sbxhost-x; echo hi > $d/sbxhost-x && cat $d/sbxhost-x; done", "hi\nhi\nhi\nhi")
	}
	if _, err := os.Stat("/tmp/sbxhost-x"); err == nil {
		t.Error("the private /tmp is the host's")
	}
}

func TestKernelControlsAreReadOnly(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	for _, spec := range []shared.Spec{{}, {Filesystem: shared.FilesystemHost}} {
		inside.Expect(t, e, spec, `for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/sys/kernel/hostname /proc/mtrr /proc/irq/default_smp_affinity; do
			( : >>$f ) 2>/dev/null && echo $f is writable; done; echo done`, "done")
		inside.Expect(t, e, spec, `( : <>/proc/kcore ) 2>/dev/null && echo open; head -c1 /proc/kcore /proc/kmsg 2>/dev/null; echo done`, "done")
	}
}

func TestProcessIsConfined(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	status := inside.Sh(t, e, shared.Spec{}, "cat /proc/self/status")
	for _, line := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if !strings.Contains(status, line+":\t0000000000000000\n") {
			t.Errorf("%s is not empty:\n%s", line, status)
		}
	}
	if !strings.Contains(status, "NoNewPrivs:\t1\n") {
		t.Error("new privileges can be gained")
	}
	want := fmt.Sprintf("%d %d", os.Getuid(), os.Getgid())
	inside.Expect(t, e, shared.Spec{}, "echo $(id -u) $(id -g)", want)
	inside.Expect(t, e, shared.Spec{}, "hostname 2>/dev/null || cat /proc/sys/kernel/hostname", "localhost")
	inside.Expect(t, e, shared.Spec{}, "tr '\\0' ' ' </proc/1/cmdline | cut -d' ' -f2", "sbxhost-init")
	inside.Expect(t, e, shared.Spec{}, "ulimit -c; ulimit -Hc", "0\n0")
	// Nothing of the engine is open in the command.
	if got := inside.Run(t, e, shared.Spec{}, shared.Command{Args: []string{"/bin/ls", "/proc/self/fd"}}).Stdout; got != "0\n1\n2\n3\n" { // 3 is ls's own
		t.Errorf("open descriptors: %q", got)
	}

	names := []string{"user", "pid", "ipc", "uts", "mnt", "cgroup", "net"}
	links := strings.Fields(inside.Sh(t, e, shared.Spec{}, "for n in "+strings.Join(names, " ")+"; do readlink /proc/self/ns/$n; done"))
	for i, ns := range names {
		host, err := os.Readlink("/proc/self/ns/" + ns)
		if err != nil {
			t.Fatal(err)
		}
		if i >= len(links) || links[i] == host {
			t.Errorf("the %s namespace is the host's: %q", ns, links)
		}
	}
	inside.Expect(t, e, shared.Spec{}, "command -v unshare >/dev/null || { echo refused; exit; }; unshare -U true 2>/dev/null && echo nested || echo refused", "refused")
	processes := strings.Fields(inside.Sh(t, e, shared.Spec{}, "ls /proc | grep '^[0-9]*$' | wc -l"))
	if n, _ := strconv.Atoi(processes[0]); n > 5 {
		t.Errorf("%d processes are visible", n)
	}
}

func TestEnvironmentIsExact(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	cmd := shared.Command{Args: []string{"/usr/bin/env"}, Env: []string{"A=1", "LD_X=2", "B=with\nnewline"}}
	if got, want := inside.Run(t, e, shared.Spec{}, cmd).Stdout, "A=1\nLD_X=2\nB=with\nnewline\n"; got != want {
		t.Errorf("env: %q, want %q", got, want)
	}
	cmd.Env = []string{}
	if got := inside.Run(t, e, shared.Spec{}, cmd).Stdout; got != "" {
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

	inside.Expect(t, e, shared.Spec{}, interfaces, "lo")
	if got := inside.Run(t, e, shared.Spec{}, connect).Stdout; got != "refused\n" {
		t.Errorf("network none: %q", got)
	}
	host := shared.Spec{Network: shared.Network{Mode: shared.NetworkHost}}
	if got := inside.Run(t, e, host, connect).Stdout; got != "reached\n" {
		t.Errorf("network host: %q", got)
	}
	want, err := exec.Command("/bin/sh", "-c", interfaces).Output()
	if err != nil {
		t.Fatal(err)
	}
	inside.Expect(t, e, host, interfaces, strings.TrimSpace(string(want)))
}

func TestHome(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	dir := inside.Workspace(t)
	inside.Write(t, filepath.Join(dir, "gitconfig"), "mine")
	spec := shared.Spec{Home: "/home/somebody", Limits: shared.Limits{TempSize: 1 << 20},
		Table: []shared.Entry{{Source: filepath.Join(dir, "gitconfig"), Path: "/home/somebody/.gitconfig", Why: "bind_paths[0]", Access: shared.ReadOnly}}}
	inside.Expect(t, e, spec, `cd /home/somebody && ls -A && stat -c %a . && echo x > new && cat new .gitconfig && (echo >> .gitconfig) 2>/dev/null || echo refused`,
		".gitconfig\n700\nx\nminerefused")
	// The size cap, in every private place.
	for _, place := range []string{"/home/somebody", "/tmp", "/dev/shm"} {
		inside.Expect(t, e, spec, "head -c 2000000 /dev/zero > "+place+"/big 2>/dev/null; stat -c %s "+place+"/big", "1048576")
	}
	inside.Expect(t, e, spec, "ls -A /home/somebody", ".gitconfig")
}

func TestToolsWork(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	dir := inside.Workspace(t)
	inside.Write(t, dir+"/Makefile", "all:\n\t@echo made\n")
	spec := shared.Spec{Home: "/home/somebody", Table: []shared.Entry{inside.BindRW(dir)}}
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
		inside.Expect(t, e, spec, tt.text, tt.want)
	}
}

func TestLongScript(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	script := strings.Repeat(": padding padding padding padding\n", 6000) + "echo $0 $1; exit 7\n"
	out := inside.Run(t, e, shared.Spec{}, shared.Command{Script: script, Args: []string{"one"}})
	if out.Status.Code != 7 || !strings.HasSuffix(out.Stdout, " one\n") {
		t.Errorf("%v %q %q", out.Status, out.Stdout, out.Stderr)
	}
}

func TestStatusAndErrors(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	if out := inside.Run(t, e, shared.Spec{}, shared.Command{Args: []string{"/bin/sh", "-c", "exit 143"}}); out.Status != (shared.ExitStatus{Code: 143}) {
		t.Errorf("%+v", out.Status)
	}
	if out := inside.Run(t, e, shared.Spec{}, shared.Command{Args: []string{"/bin/sh", "-c", "kill -TERM $$"}}); out.Status != (shared.ExitStatus{Signal: syscall.SIGTERM}) {
		t.Errorf("%+v", out.Status)
	}
	if _, err := inside.TryRun(t, e, shared.Spec{}, shared.Command{Args: []string{"sbxhost-no-such-command"}}); !errors.Is(err, shared.ErrNotFound) {
		t.Errorf("absent: %v", err)
	}
	if _, err := inside.TryRun(t, e, shared.Spec{}, shared.Command{Args: []string{"/etc/passwd"}}); !errors.Is(err, shared.ErrNotExecutable) {
		t.Errorf("not executable: %v", err)
	}
	cmd := shared.Command{Args: []string{"/bin/sh", "-c", "trap 'echo term; exit 3' TERM; echo; while :; do sleep 0.05; done"}, Timeout: 300 * time.Millisecond, Grace: time.Minute}
	out := inside.Run(t, e, shared.Spec{}, cmd)
	for out.Stdout == "" && cmd.Timeout < 20*time.Second { // a machine that is slow now
		cmd.Timeout *= 4
		out = inside.Run(t, e, shared.Spec{}, cmd)
	}
	if !out.TimedOut || out.Stdout != "\nterm\n" {
		t.Errorf("%+v", out)
	}
}
