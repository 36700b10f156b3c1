package bwrap

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/engine/cgroup"
	"github.com/sbxhost/sbxhost/plugins/internal/inside"
	"github.com/sbxhost/sbxhost/shared"
)

// needGroups gives the mechanism that holds limits here, and skips where there
// is none, unless the environment says that there must be one.
func needGroups(t *testing.T) string {
	t.Helper()
	d := cgroup.Look().Decide(cgroup.Limits{Memory: 1, CPUs: 1, PIDs: 1})
	for _, c := range []cgroup.Controller{cgroup.Memory, cgroup.CPU, cgroup.PIDs} {
		if d.Mechanism(c) == "" {
			if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "cgroup") {
				t.Fatalf("cgroup is required, and %s cannot be had", c)
			}
			t.Skipf("no group for %s can be had here", c)
		}
	}
	return d.Mechanism(cgroup.Memory)
}

func holds(events []shared.Event) map[string]string {
	out := map[string]string{}
	for _, ev := range events {
		if ev.Kind == shared.EventLimit {
			out[ev.Details["limit"]] = strings.TrimSpace(ev.Details["hold"] + " " + ev.Details["mechanism"])
		}
	}
	return out
}

func wantHolds(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, w := range want {
		if got[name] != w {
			t.Errorf("limits.%s is %q, want %q", name, got[name], w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("limits: %v, want %v", got, want)
	}
}

func TestLimitsHeld(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	by := needGroups(t)
	spec := shared.Spec{Limits: shared.Limits{OpenFiles: 17, Memory: 1 << 30, PIDs: 64, CPUs: 1, TempSize: 1 << 20}}
	// The init takes its own score back once it has started the command, which can
	// be faster than that.
	const difference = `n=0; until d=$(($(cat /proc/self/oom_score_adj) - $(cat /proc/1/oom_score_adj))); [ $d = 500 ] || [ $n = 500 ]; do n=$((n+1)); done; echo $d`
	out := inside.Run(t, e, spec, shared.Command{Args: []string{"/bin/sh", "-c", "ulimit -n; ulimit -v; " + difference}})
	// The last: of the two the kernel kills the command, when memory is used up.
	if out.Stdout != "17\nunlimited\n500\n" {
		t.Errorf("%q %q", out.Stdout, out.Stderr)
	}
	wantHolds(t, holds(out.Events), map[string]string{"memory": "enforced " + by, "cpus": "enforced " + by, "pids": "enforced " + by,
		"open_files": "enforced RLIMIT_NOFILE", "temp_size": "enforced tmpfs size"})
}

// Where no group can be had, a limit is approximated or refused by name.
func TestLimitsWithoutGroups(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	if cgroup.Look().Places != nil || cgroup.Look().Manager != nil {
		t.Skip("groups can be had here")
	}
	for _, l := range []shared.Limits{{Memory: 1 << 30}, {PIDs: 100}, {CPUs: 1}} {
		_, err := e.Open(t.Context(), shared.Spec{Limits: l})
		if !errors.Is(err, shared.ErrUnsupported) || !strings.HasPrefix(err.Error(), "limits.") {
			t.Errorf("Open with %+v: %v", l, err)
		}
	}
	spec := shared.Spec{Limits: shared.Limits{OpenFiles: 17, Memory: 1 << 30, PIDs: 20, CPUs: 1, BestEffort: true}}
	out := inside.Run(t, e, spec, shared.Command{Args: []string{"/bin/sh", "-c", "ulimit -n; ulimit -d"}})
	if out.Stdout != "17\n1048576\n" {
		t.Errorf("%q %q", out.Stdout, out.Stderr)
	}
	pids := "approximated RLIMIT_NPROC"
	if os.Geteuid() == 0 {
		pids = "not enforced"
	}
	wantHolds(t, holds(out.Events), map[string]string{"memory": "approximated RLIMIT_DATA", "cpus": "not enforced", "pids": pids, "open_files": "enforced RLIMIT_NOFILE"})

	// It does not count what a runtime reserves and does not use, as JavaScript's does tens of
	// gigabytes: that is bounded by RLIMIT_AS, with which node does not start.
	spec.Limits.OpenFiles, spec.Limits.PIDs = 0, 0
	if _, err := os.Stat("/usr/bin/node"); err == nil {
		if out := inside.Run(t, e, spec, shared.Command{Args: []string{"/usr/bin/node", "-e", "console.log(new Array(1e6).fill(1).length)"}}); out.Stdout != "1000000\n" {
			t.Errorf("node: %q %q", out.Stdout, out.Stderr)
		}
	}

	// An approximation bounds each process.
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		return
	}
	spec = shared.Spec{Limits: shared.Limits{Memory: 512 << 20, PIDs: 64, BestEffort: true}}
	const large = "try: b = bytearray(1 << 30)\nexcept MemoryError: print('refused')\n"
	if out := inside.Run(t, e, spec, shared.Command{Args: []string{"/usr/bin/python3", "-c", large}}); out.Stdout != "refused\n" {
		t.Errorf("1 GiB in 512 MiB: %v %q %q", out.Status, out.Stdout, out.Stderr)
	}
	if os.Geteuid() == 0 {
		return
	}
	if out := inside.Run(t, e, spec, shared.Command{Args: []string{"/usr/bin/python3", "-c", bomb}}); out.Stdout != "Resource temporarily unavailable True\n" {
		t.Errorf("processes: %v %q %q", out.Status, out.Stdout, out.Stderr)
	}
}

// bomb forks until it cannot, each fork a process that stays.
const bomb = `import os, time
n = 0
try:
    while n < 5000:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        n += 1
except OSError as e:
    print(e.strerror, n < 64)
else:
    print("unbounded")
`

func TestForkBomb(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	needGroups(t)
	needProgram(t, "/usr/bin/python3")
	spec := shared.Spec{Limits: shared.Limits{PIDs: 64}}
	out := inside.Run(t, e, spec, shared.Command{Args: []string{"/usr/bin/python3", "-c", bomb}})
	if out.Stdout != "Resource temporarily unavailable True\n" || !out.Status.Success() {
		t.Errorf("%v %q %q", out.Status, out.Stdout, out.Stderr)
	}

	// One that never stops ends with its time, and with all it has made.
	const endless = `import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("set", flush=True)
while True:
    try: os.fork()
    except OSError: pass
`
	cmd := shared.Command{Args: []string{"/usr/bin/python3", "-c", endless}, Timeout: 3 * time.Second, Grace: 300 * time.Millisecond}
	for out = inside.Run(t, e, spec, cmd); out.Stdout == "" && cmd.Timeout < time.Minute; out = inside.Run(t, e, spec, cmd) { // a machine that is slow now
		cmd.Timeout *= 4
	}
	if !out.TimedOut || out.Status.Signal != syscall.SIGKILL {
		t.Errorf("%+v", out.Result)
	}
}

func TestMemoryBalloon(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	needGroups(t)
	needProgram(t, "/usr/bin/python3")
	// Each of four processes is within the limit, and together they are not.
	const balloon = `import os, signal
size = %d << 20
children = []
r, w = os.pipe()
for i in range(4):
    pid = os.fork()
    if pid == 0:
        b = bytearray(size)
        for i in range(0, size, 4096): b[i] = 1
        os.write(w, b"x")
        signal.pause()
    children.append(pid)
os.close(w)
full = 0
while full < 4 and os.waitpid(-1, os.WNOHANG) == (0, 0):
    os.set_blocking(r, False)
    try:
        full += len(os.read(r, 1))
    except BlockingIOError:
        pass
print("full" if full == 4 else "killed")
for pid in children:
    try: os.kill(pid, 9)
    except ProcessLookupError: pass
`
	spec := shared.Spec{Limits: shared.Limits{Memory: 128 << 20}}
	small := strings.Replace(balloon, "%d", "8", 1)
	out := inside.Run(t, e, spec, shared.Command{Args: []string{"/usr/bin/python3", "-c", small}})
	if out.Stdout != "full\n" {
		t.Errorf("within the limit: %v %q %q", out.Status, out.Stdout, out.Stderr)
	}
	out = inside.Run(t, e, spec, shared.Command{Args: []string{"/usr/bin/python3", "-c", strings.Replace(balloon, "%d", "60", 1)}})
	if out.Stdout == "full\n" {
		t.Errorf("240 MiB in a group of 128 MiB")
	}
	if !toldOfKill(out.Events) {
		t.Errorf("no event tells of the kernel's kill: %+v", out.Events)
	}
}

func toldOfKill(events []shared.Event) bool {
	return slices.ContainsFunc(events, func(ev shared.Event) bool {
		return ev.Kind == shared.EventViolation && ev.Details["limit"] == "memory"
	})
}

func TestProcessorTime(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	needGroups(t)
	needProgram(t, "/usr/bin/python3")
	const spin = `import os, time
children = []
for i in range(3):
    pid = os.fork()
    if pid == 0:
        end = time.monotonic() + 1.5
        while time.monotonic() < end: pass
        os._exit(0)
for i in range(3): os.wait()
u = os.times()
print(u.children_user + u.children_system)
`
	spec := shared.Spec{Limits: shared.Limits{CPUs: 0.2}}
	out := inside.Run(t, e, spec, shared.Command{Args: []string{"/usr/bin/python3", "-c", spin}})
	used, err := time.ParseDuration(strings.TrimSpace(out.Stdout) + "s")
	// A fifth of a processor for 1.5 seconds is 0.3 seconds, and each of
	// the kernel's periods may be begun.
	if err != nil || used <= 0 || used > 900*time.Millisecond {
		t.Errorf("%v of processor time, %v; %q", used, err, out.Stderr)
	}
}

func needProgram(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), program[strings.LastIndexByte(program, '/')+1:]) {
			t.Fatalf("%s is required: %v", program, err)
		}
		t.Skipf("%s is not installed", program)
	}
}

// leanInit skips where the init, which is the test's own executable, has the race
// detector in it: that takes more memory than these tests let a sandbox have.
func leanInit(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("the race detector's own memory is over the limit")
	}
}

func TestTooSmallLimits(t *testing.T) {
	t.Parallel()
	leanInit(t)
	e := needBwrap(t)
	needGroups(t)
	for _, l := range []shared.Limits{{Memory: 1 << 20}, {PIDs: 3}} {
		if _, err := e.Open(t.Context(), shared.Spec{Limits: l}); !errors.Is(err, shared.ErrInvalidSpec) || !strings.HasPrefix(err.Error(), "limits.") {
			t.Errorf("%+v: %v", l, err)
		}
	}
	// The least there can be is enough to run something.
	out := inside.Run(t, e, shared.Spec{Limits: shared.Limits{Memory: 16 << 20, PIDs: 16}}, shared.Command{Args: []string{"/bin/sh", "-c", "kill -TERM $$"}})
	if out.Status.Signal != syscall.SIGTERM {
		t.Errorf("%+v", out.Status)
	}
}

// Many small processes use up the memory, none of which is as large as the init:
// the kernel's choice must not fall on it, or nobody could tell how the command ended.
func TestManySmallProcesses(t *testing.T) {
	t.Parallel()
	leanInit(t)
	e := needBwrap(t)
	needGroups(t)
	spec := shared.Spec{Limits: shared.Limits{Memory: 48 << 20}}
	out := inside.Run(t, e, spec, shared.Command{Args: []string{"/bin/sh", "-c", `i=0; while [ $i -lt 400 ]; do sleep 1000 & i=$((i+1)); done; echo made; kill -9 -1`}, Timeout: 2 * time.Minute})
	// Which of them the kernel killed, the shell perhaps among them, is its own matter.
	if !toldOfKill(out.Events) {
		t.Errorf("%+v %q", out, out.Stderr)
	}
}
