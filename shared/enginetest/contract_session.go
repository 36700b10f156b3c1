package enginetest

import (
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// sessionRules are about commands that share processes.
func sessionRules() []rule {
	claimed := []shared.Feature{shared.FeatureProcesses}
	return []rule{
		{id: "session.01", title: "what a command leaves running the next one reaches, until the last sandbox is closed", features: claimed, run: goesOn},
		{id: "session.02", title: "no command enters another's root directory, or reads its environment, memory or files, by /proc", features: claimed, run: apartByProc},
		{id: "session.03", title: "a kill ends what one command has started, and nothing else", features: claimed, run: killsItsOwn},
		{id: "session.04", title: "limits bound all of it together", features: append(claimed, shared.FeatureLimitPIDs), run: boundTogether},
	}
}

// oneMachine is the usual sandbox in a session whose commands share processes.
func (s *scene) oneMachine() shared.Spec {
	spec := s.spec()
	spec.Session = shared.Session{ID: s.canary, Dir: s.path("session"), Processes: true}
	s.must(os.MkdirAll(spec.Session.Dir, 0o700))
	return spec
}

// left runs a command that leaves something running which has nobody's output, and writes its number
// to /tmp/left.
const left = "sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >/tmp/left"

func goesOn(s *scene) {
	spec := s.oneMachine()
	first, second := s.openAs(spec), s.openAs(spec)
	s.exits(s.run(first, s.sh(left+"; readlink /proc/self/ns/net >/tmp/net"), nil), 0, "")
	o := s.run(second, s.sh(`kill -0 "$(cat /tmp/left)" && test "$(readlink /proc/self/ns/net)" = "$(cat /tmp/net)" && echo alive`), nil)
	s.exits(o, 0, "alive\n")
	s.must(first.Close(s.ctx))
	s.exits(s.run(second, s.sh(`kill -0 "$(cat /tmp/left)" && echo alive`), nil), 0, "alive\n")
	s.must(second.Close(s.ctx))
	third := s.openAs(spec)
	if o := s.run(third, s.sh(`cat /proc/[0-9]*/cmdline | tr '\0' ' ' | grep 'slee[p] 1000'`), nil); o.stdout != "" {
		s.failf("a process is there when the last sandbox was closed: %s", tail(o.stdout))
	}
}

// looks is what a command tries to see of process $1, a line each.
const looks = `p=/proc/$1; kill -0 $1 || exit 9
cat $p/environ >/dev/null 2>&1 && echo environ; ls $p/root/ >/dev/null 2>&1 && echo root; ls $p/cwd/ >/dev/null 2>&1 && echo cwd
readlink $p/fd/0 >/dev/null && echo fd; cat $p/maps 2>/dev/null | grep -q . && echo maps; readlink $p/exe >/dev/null && echo exe; readlink $p/ns/user >/dev/null && echo ns; :`

func apartByProc(s *scene) {
	sandbox := s.openAs(s.oneMachine())
	s.exits(s.run(sandbox, s.sh(left), nil), 0, "")
	s.exits(s.run(sandbox, s.sh("set -- $(cat /tmp/left)\n"+looks), nil), 0, "")
	// One that has started it sees all of that.
	o := s.run(sandbox, s.sh("sleep 1000 </dev/null >/dev/null 2>&1 & set -- $!\n"+looks), nil)
	if want := "environ\nroot\ncwd\nfd\nmaps\nexe\nns\n"; o.stdout != want {
		s.end(ControlFailed, "a command sees of what it has started %q, and not %q; stderr: %s", o.stdout, want, tail(o.stderr))
	}
	// Nor does one see pid 1, or the init of another.
	s.exits(s.run(sandbox, s.sh("set -- 1\n"+looks), nil), 0, "")
}

func killsItsOwn(s *scene) {
	sandbox := s.openAs(s.oneMachine())
	s.exits(s.run(sandbox, s.sh(left), nil), 0, "")
	p, _ := s.started(sandbox, s.sh("(setsid sleep 1001 </dev/null >/dev/null 2>&1 & echo $! >/tmp/own); echo ready"+forever), nil)
	s.signal(p, syscall.SIGKILL)
	s.wait(p)
	s.exits(s.run(sandbox, s.sh(`kill -0 "$(cat /tmp/own)" 2>/dev/null && echo own; kill -0 "$(cat /tmp/left)" && echo left`), nil), 0, "left\n")
	// The end of a command's time does, too, where the command itself obeys at once.
	timed := s.sh("(setsid sleep 1002 </dev/null >/dev/null 2>&1 & echo $! >/tmp/own)" + forever)
	timed.Timeout, timed.Grace = 300*time.Millisecond, 10*time.Second
	if r := s.wait(s.begin(sandbox, timed, shared.Stdio{})); !r.TimedOut {
		s.failf("it ended with %v", r.Status)
	}
	s.exits(s.run(sandbox, s.sh(`kill -0 "$(cat /tmp/own)" 2>/dev/null && echo own; kill -0 "$(cat /tmp/left)" && echo left`), nil), 0, "left\n")
}

func boundTogether(s *scene) {
	spec := s.oneMachine()
	spec.Limits.PIDs = 60
	sandbox, err := s.engine.Open(s.ctx, spec)
	if err != nil {
		s.end(NotApplicable, "limits.pids is not held here: %v", err)
	}
	defer sandbox.Close(s.ctx)
	const some = `i=0; while [ $i -lt 15 ]; do sleep 1000 </dev/null >/dev/null 2>&1 & i=$((i+1)); done; jobs -p | wc -l`
	started := 0
	for range 6 {
		o := s.start(s.ctx, sandbox, &trial{Command: s.sh(some)})
		if o.refused != nil || !o.Status.Success() || strings.Contains(o.stderr, "fork") {
			break
		}
		started++
	}
	if started == 0 || started == 6 {
		s.failf("%d commands have left 15 processes each", started)
	}
}
