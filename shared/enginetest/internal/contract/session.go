package contract

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// sessionRules are about commands of one session, most of which share processes.
func sessionRules() []Rule {
	claimed := []shared.Feature{shared.FeatureProcesses}
	return []Rule{
		{ID: "session.01", Title: "what a command leaves running the next one reaches, until the last sandbox is closed", Features: claimed, run: goesOn},
		{ID: "session.02", Title: "no command enters another's root directory, or reads its environment, memory or files, by /proc", Features: claimed, run: apartByProc},
		{ID: "session.03", Title: "a kill ends what one command has started, and nothing else", Features: claimed, run: killsItsOwn},
		{ID: "session.04", Title: "limits bound all of it together", Features: append(claimed, shared.FeatureLimitPIDs), run: boundTogether},
		{ID: "session.05", Title: "a sandbox with another network or limit is refused while one is open", Features: append(claimed, shared.FeatureNetworkHost, shared.FeatureLimitOpenFiles), run: refusesOthers},
		{ID: "session.06", Title: "an event of the network tells whose it is where commands share that, and not elsewhere", Features: append(claimed, shared.FeatureNetworkNames), run: tellsWhose},
		{ID: "session.07", Title: "commands of a session share the home, or an event says that each has its own", Features: shared.Features{shared.FeatureHomePrivate}, run: sharesHome},
	}
}

func sharesHome(s *subject) {
	spec := s.inSession(shared.Session{ID: s.Canary})
	spec.Home = s.Path("home")
	home := "HOME=" + spec.Home
	first, second := s.sh(`echo kept >"$HOME/kept"`), s.sh(`cat "$HOME/kept"`)
	first.Env, second.Env = append(first.Env, home), append(second.Env, home)
	p := s.begin(s.OpenAs(spec), first, shared.Stdio{})
	s.exitsWith(p, 0)
	told := false
	for e := range p.Events() {
		told = told || e.Kind == shared.EventDegraded && e.Details["attribute"] == "home"
	}
	if !told {
		s.exits(s.run(s.OpenAs(spec), second, nil), 0, "kept\n")
	}
}

func tellsWhose(s *subject) {
	const name = "unlisted.example"
	cmd := s.inside("dial", "tcp", name+":80", "nothing")
	for what, spec := range map[string]shared.Spec{"a session": s.oneMachine(), "none": s.spec()} {
		spec.Network = shared.Network{Mode: shared.NetworkNames, Names: []string{"listed.example"}}
		s.Check(what, func() {
			p := s.begin(s.OpenAs(spec), cmd, shared.Stdio{})
			s.wait(p)
			heard := false
			for e := range p.Events() {
				if e.Kind != shared.EventNetwork || e.Details["name"] != name {
					continue
				}
				heard = true
				s.Demand((e.Details["by"] != "") == spec.Session.Processes, "it is said to be by %q: %s", e.Details["by"], e.Message)
			}
			s.Demand(heard, "no event tells of %s", name)
		})
	}
}

// inSession is the usual sandbox in a session with a directory.
func (s *subject) inSession(session shared.Session) shared.Spec {
	spec := s.spec()
	spec.Session = session
	spec.Session.Dir = s.Path("session")
	s.Must(os.MkdirAll(spec.Session.Dir, 0o700))
	return spec
}

// oneMachine is one in a session whose commands share processes.
func (s *subject) oneMachine() shared.Spec {
	return s.inSession(shared.Session{ID: s.Canary, Processes: true})
}

// leaveProcess runs a command that leaves something running which has nobody's output, and writes its number
// to /tmp/left.
const leaveProcess = "sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >/tmp/left"

func goesOn(s *subject) {
	spec := s.oneMachine()
	first, second := s.OpenAs(spec), s.OpenAs(spec)
	// elsewhere makes, or finds, a file in the other directories for temporary ones.
	const elsewhere = "for d in /var/tmp /dev/shm; do test ! -d $d || %s $d/left || exit 7; done; "
	s.prints(first, fmt.Sprintf(elsewhere, "touch")+leaveProcess+"; cd /proc/self/ns; readlink pid ipc uts net >/tmp/ns; readlink user >/tmp/user", "")
	s.prints(second, fmt.Sprintf(elsewhere, "test -e")+`kill -0 "$(cat /tmp/left)" && cd /proc/self/ns && test "$(readlink pid ipc uts net)" = "$(cat /tmp/ns)" && test "$(readlink user)" != "$(cat /tmp/user)" && echo alive`, "alive\n")
	s.Must(first.Close(s.Ctx))
	s.prints(second, `kill -0 "$(cat /tmp/left)" && echo alive`, "alive\n")
	s.Must(second.Close(s.Ctx))
	third := s.OpenAs(spec)
	o := s.run(third, s.sh(`cat /proc/[0-9]*/cmdline | tr '\0' ' ' | grep 'slee[p] 1000'`), nil)
	s.Demand(o.Stdout == "", "a process is there when the last sandbox was closed: %s", scene.Tail(o.Stdout))
}

func refusesOthers(s *subject) {
	spec := s.oneMachine()
	s.prints(s.OpenAs(spec), ":", "")
	for name, change := range map[string]func(*shared.Spec){
		"network": func(s *shared.Spec) { s.Network.Mode = shared.NetworkHost },
		"limits":  func(s *shared.Spec) { s.Limits.OpenFiles = 123 },
		"user":    func(s *shared.Spec) { s.User = &shared.User{UID: 12345, GID: 12345} },
	} {
		other := spec
		change(&other)
		s.Check(name, func() { s.refuses(other, shared.ErrInvalidSpec, shared.ErrUnsupported, shared.ErrDenied) })
	}
}

// looks is what a command tries to see of process $1, in one line each.
const looks = `p=/proc/$1; kill -0 $1 || exit 9
cat $p/environ >/dev/null 2>&1 && echo environ; ls $p/root/ >/dev/null 2>&1 && echo root; ls $p/cwd/ >/dev/null 2>&1 && echo cwd
readlink $p/fd/0 >/dev/null && echo fd; cat $p/maps 2>/dev/null | grep -q . && echo maps; readlink $p/exe >/dev/null && echo exe; readlink $p/ns/user >/dev/null && echo ns; :`

func apartByProc(s *subject) {
	sandbox := s.OpenAs(s.oneMachine())
	s.prints(sandbox, leaveProcess, "")
	s.prints(sandbox, "set -- $(cat /tmp/left)\n"+looks, "")
	// One that has started it sees all of that.
	o := s.run(sandbox, s.sh("sleep 1000 </dev/null >/dev/null 2>&1 & set -- $!\n"+looks), nil)
	const want = "environ\nroot\ncwd\nfd\nmaps\nexe\nns\n"
	s.Expect(o.Stdout == want, scene.ControlFailed, "a command sees of what it has started %q, and not %q; stderr: %s", o.Stdout, want, scene.Tail(o.Stderr))
	// A command does not see pid 1 or the init of another command either.
	s.prints(sandbox, "set -- 1\n"+looks, "")
}

// detached starts a process in a session of its own, and waits until it is there: its number is in /tmp/own then.
const detached = `rm -f /tmp/own; (setsid sh -c 'echo $$ >/tmp/own; exec sleep 1001' </dev/null >/dev/null 2>&1 &); until test -s /tmp/own; do sleep 0.01; done`

func killsItsOwn(s *subject) {
	sandbox := s.OpenAs(s.oneMachine())
	s.prints(sandbox, leaveProcess, "")
	ownIsGone := func() {
		s.prints(sandbox, `kill -0 "$(cat /tmp/own)" 2>/dev/null && echo own; kill -0 "$(cat /tmp/left)" && echo left`, "left\n")
	}
	p, _ := s.started(sandbox, detached+"; echo ready"+forever)
	s.signal(p, syscall.SIGKILL)
	s.wait(p)
	ownIsGone()
	// The end of a command's time does, too, where the command itself obeys at once.
	timed := s.sh(detached + forever)
	timed.Timeout, timed.Grace = 300*time.Millisecond, 10*time.Second
	r := s.wait(s.begin(sandbox, timed, shared.Stdio{}))
	s.Demand(r.TimedOut, "it ended with %v", r.Status)
	ownIsGone()
}

func boundTogether(s *subject) {
	spec := s.oneMachine()
	spec.Limits.PIDs = 60
	sandbox, err := s.Engine.Open(s.Ctx, spec)
	s.Needs(err == nil, "limits.pids is not held here: %v", err)
	defer sandbox.Close(s.Ctx)
	const some = `i=0; while [ $i -lt 15 ]; do sleep 1000 </dev/null >/dev/null 2>&1 & i=$((i+1)); done; jobs -p | wc -l`
	started := 0
	for range 6 {
		o := s.Start(s.Ctx, sandbox, &scene.Trial{Command: s.sh(some)})
		if o.Refused != nil || !o.Status.Success() || strings.Contains(o.Stderr, "fork") {
			break
		}
		started++
	}
	s.Demand(started > 0 && started < 6, "%d commands have left 15 processes each", started)
}
