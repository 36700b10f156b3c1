package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/paths"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/actor"
)

// commandRules are about what is run, and with what.
func commandRules() []rule {
	return []rule{
		{id: "command.01", title: "the environment is exact", run: exactEnvironment(ownTemp, "PATH=/usr/bin:/bin", "A=1", "EMPTY=", "B=x\ny")},
		{id: "command.02", title: "arguments are exact", run: exactArguments},
		{id: "command.03", title: "the working directory", run: func(s *scene) {
			cmd := s.sh("pwd")
			cmd.Dir = s.path("ws/sub")
			s.exits(s.once(cmd, nil), 0, cmd.Dir+"\n")
		}},
		{id: "command.04", title: "a script, with its parameters", run: func(s *scene) {
			s.exits(s.once(s.script(`printf '%s|' "$@"; exit 3`, "one", "two words", ""), nil), 3, "one|two words||")
		}},
		{id: "command.05", title: "a script of 200 KB", run: func(s *scene) {
			s.exits(s.once(s.script("x='"+strings.Repeat("y", 200_000)+"'\necho ${#x}\nexit 4\n"), nil), 4, "200000\n")
		}},
		{id: "command.06", title: "a command is looked up in the PATH of its environment", run: lookedUp},
		{id: "command.07", title: "a command that is not there is ErrNotFound", run: func(s *scene) {
			s.refused(shared.ErrNotFound, map[string]string{
				"a name": "sbxhost-no-such-command", "a path": "/no/such/command", "an empty name": "",
			})
		}},
		{id: "command.08", title: "a command that cannot be executed is ErrNotExecutable", run: func(s *scene) {
			s.must(s.write("ws/plain", "text"))
			s.refused(shared.ErrNotExecutable, map[string]string{
				"a directory": s.ws, "a file without the permission": s.path("ws/plain"),
			})
		}},
		{id: "command.09", title: "126 and 127 are codes like others when a command exits with them", run: func(s *scene) {
			sandbox := s.open()
			for _, code := range []int{124, 125, 126, 127, 128, 143} {
				s.exits(s.run(sandbox, s.sh(fmt.Sprintf("exit %d", code)), nil), code, "")
			}
		}},
		{id: "command.10", title: "Plan runs nothing, and shows no value of a variable", run: plans},
		{id: "command.11", title: "commands of one sandbox do not see each other's processes", features: []shared.Feature{shared.FeatureProcessesHidden}, run: apart},
		{id: "command.13", title: "the mask of file modes is no weaker, and the priority no higher, than the engine's own", run: maskAndPriority},
		{id: "command.16", title: "a trace tells what a command failed at, and is all that it changes", features: []shared.Feature{shared.FeatureTrace}, run: tracedCommand},
		{id: "command.14", title: "no error tells the value of a variable", run: func(s *scene) {
			sandbox := s.open()
			for name, change := range map[string]func(*shared.Command){
				"no such command":   func(c *shared.Command) { c.Args = []string{"sbxhost-no-such-command"} },
				"no such directory": func(c *shared.Command) { c.Dir = "/no/such/directory" },
				"a bad variable":    func(c *shared.Command) { c.Env = append(c.Env, s.canary) },
				"a terminal":        func(c *shared.Command) { c.TTY = true },
			} {
				cmd := s.sh("exit 0")
				cmd.Env = append(slices.Clone(cmd.Env), "TOKEN="+s.canary)
				change(&cmd)
				s.check(name, func() {
					err := s.notStarted(sandbox, cmd, shared.Stdio{})
					if strings.Contains(err.Error(), s.canary) {
						s.failf("the error has it: %s", tail(err.Error()))
					}
				})
			}
		}},
		{id: "command.15", title: "what Plan says is what runs: the launcher's words, each mount and its access", run: planned},
		{id: "command.17", title: "what is written to an overlay is where KeptOverlay says, and not in its source", features: []shared.Feature{shared.FeatureOverlayKept}, run: keptOverlay},
		{id: "command.12", title: "a command has its three files and no other, and finds signals neither blocked nor ignored", run: plainProcess},
	}
}

// script is a Command by Script.
func (s *scene) script(text string, args ...string) shared.Command {
	cmd := s.newTrial().Command
	cmd.Script, cmd.Args = text, args
	return cmd
}

// refused wants Start to fail for each command.
func (s *scene) refused(kind error, commands map[string]string) {
	sandbox := s.open()
	for name, program := range commands {
		cmd := s.newTrial().Command
		cmd.Args = []string{program}
		s.check(name, func() { s.wants("Start", s.notStarted(sandbox, cmd, shared.Stdio{}), kind) })
	}
}

func lookedUp(s *scene) {
	const name = "sbxhost-probe-tool"
	s.must(s.write("ws/sub/"+name, "#!/bin/sh\necho $0 $1\n"))
	s.must(os.Chmod(s.path("ws/sub", name), 0o755))
	cmd := s.sh("")
	cmd.Args, cmd.Env = []string{name, "one"}, []string{"PATH=/usr/bin:" + s.path("ws/sub")}
	s.exits(s.once(cmd, nil), 0, s.path("ws/sub", name)+" one\n")
}

func plans(s *scene) {
	sandbox := s.open()
	cmd := s.sh("touch made")
	cmd.Env = append(cmd.Env, "TOKEN="+s.canary)
	plan, err := sandbox.Plan(s.ctx, cmd)
	s.must(err)
	if len(plan.Argv) == 0 {
		s.failf("there is no command line")
	}
	if strings.Contains(strings.Join(plan.Argv, " "), s.canary) {
		s.failf("the command line has the value of a variable")
	}
	if hostHas(s.path("ws/made")) != nil {
		s.failf("it ran the command")
	}
	// The control: Start does.
	s.run(sandbox, cmd, nil)
	_, err = os.Stat(s.path("ws/made"))
	s.must(err)
}

// keptOverlay looks for what a command writes to its workspace.
func keptOverlay(s *scene) {
	spec := s.spec()
	spec.Session = shared.Session{ID: s.canary, Dir: s.path("kept"), Named: true}
	s.must(os.MkdirAll(spec.Session.Dir, 0o700))
	for i := range spec.Table {
		if spec.Table[i].Path == s.ws {
			spec.Table[i].Access = shared.Overlay
		}
	}
	sandbox := s.openAs(spec)
	s.exits(s.run(sandbox, s.sh("echo kept >made && cat made"), nil), 0, "kept\n")
	s.must(sandbox.Close(s.ctx))
	upper, _ := shared.KeptOverlay(&spec.Session, uint32(os.Geteuid()), s.ws)
	text, err := os.ReadFile(filepath.Join(upper, "made"))
	if err != nil || string(text) != "kept\n" {
		s.failf("there it is %q: %v", text, err)
	}
	if hostHas(s.path("ws/made")) != nil {
		s.failf("it is in the workspace")
	}
}

// planned compares a plan with what the command finds, and with what runs on the machine.
func planned(s *scene) {
	sandbox := s.open()
	cmd := s.sh("cat /proc/self/mountinfo; echo end; sleep 61.5; exit 0")
	plan, err := sandbox.Plan(s.ctx, cmd)
	s.must(err)
	said := strings.Join(plan.Argv, "\n")
	for _, m := range plan.Mounts {
		said += "\n" + m.Destination
	}
	for _, d := range plan.Documents {
		said += "\n" + d.Text
	}
	if !s.suite.unconfined && !strings.Contains(said, s.ws) {
		s.failf("nothing in it tells that the command can write %s", s.ws)
	}
	r, w := s.pipe()
	p := s.begin(sandbox, cmd, shared.Stdio{Stdout: w})
	type mounted struct {
		writable bool
		source   string // on its file system
	}
	inside, out := map[string]mounted{}, s.linesOf(r)
	for {
		line, err := out.next()
		s.must(err)
		if line == "end\n" {
			break
		}
		if fields := strings.Fields(line); len(fields) > 5 { // of several at one place, the last is on top
			inside[fields[4]] = mounted{slices.Contains(strings.Split(fields[5], ","), "rw"), fields[3]}
		}
	}
	s.check("the launcher", func() { s.until(func() error { return running(plan.Argv) }) })
	s.endNow(p)
	if len(inside) == 0 {
		return // no Linux
	}
	writable := map[string]bool{}
	for i, m := range plan.Mounts {
		writable[m.Destination] = m.Op != "ro-bind"
		covered := slices.ContainsFunc(plan.Mounts[i+1:], func(later shared.PlannedMount) bool {
			return later.Op != "remount-ro" && paths.Inside(later.Destination, m.Destination)
		})
		if covered || m.Op != "ro-bind" && m.Op != "bind" {
			continue
		}
		if at, ok := inside[m.Destination]; !ok {
			s.check(m.Destination, func() { s.failf("the plan mounts it, and nothing is mounted there") })
		} else if m.Op == "ro-bind" && at.writable {
			s.check(m.Destination, func() { s.failf("the plan has it read-only, and it is writable") })
		}
	}
	for place, m := range inside {
		ours := strings.Contains(m.source, filepath.Base(s.suite.dir)) // and none that a daemon adds
		if len(plan.Mounts) > 0 && ours && m.writable && !writable[place] {
			s.check(place, func() { s.failf("it is a writable mount, which the plan does not have") })
		}
	}
}

func apart(s *scene) {
	sandbox := s.open()
	p, _ := s.started(sandbox, s.sh("echo; exec sleep 61.25"), nil)
	o := s.run(sandbox, s.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '"), nil)
	if strings.Contains(o.stdout, "sleep 61.25") {
		s.failf("one sees the other")
	}
	s.endNow(p)
}

// maskAndPriority compares what a command inherits of its launcher with this process.
func maskAndPriority(s *scene) {
	mask := func(text string) uint64 {
		n, err := strconv.ParseUint(strings.TrimSpace(text), 8, 32)
		s.must(err)
		return n
	}
	const ask = "umask; nice"
	inside := strings.Fields(s.once(s.sh(ask), nil).stdout)
	text, err := exec.Command("/bin/sh", "-c", ask).Output()
	s.must(err)
	outside := strings.Fields(string(text))
	if len(inside) == 0 || len(outside) == 0 {
		s.failf("umask says %q inside, and %q outside", inside, outside)
	}
	if mask(outside[0])&^mask(inside[0]) != 0 {
		s.failf("the mask is %s, and the engine's own %s", inside[0], outside[0])
	}
	if len(inside) < 2 || len(outside) < 2 {
		return // there is no program nice
	}
	in, err1 := strconv.Atoi(inside[1])
	out, err2 := strconv.Atoi(outside[1])
	s.must(errors.Join(err1, err2))
	if in < out {
		s.failf("the niceness is %d, and the engine's own %d", in, out)
	}
}

// plainProcess is for engines that do not isolate, too, which have no probes.
func plainProcess(s *scene) {
	if runtime.GOOS != "linux" {
		s.end(NotApplicable, "there is no /proc here")
	}
	if o := s.once(s.kit("descriptors"), nil); o.verdict.Kind != actor.Denied {
		s.failf("more descriptors are open: %s", o.told())
	}
	signalState(s)
}

func tracedCommand(s *scene) {
	cmd := s.sh("cd / && cat sbxhost-none 2>/dev/null; exit 6")
	cmd.Trace = true
	p := s.begin(s.open(), cmd, shared.Stdio{})
	s.endsBy(p, shared.ExitStatus{Code: 6})
	var calls []shared.TracedCall
	for e := range p.Events() {
		if e.Kind == shared.EventTraced {
			s.must(json.Unmarshal([]byte(e.Details["calls"]), &calls))
		}
	}
	want := shared.TracedCall{Wants: "read", Target: "/sbxhost-none", Error: "ENOENT"}
	if !slices.Contains(calls, want) {
		s.failf("%+v is not among the calls that are told: %+v", want, calls)
	}
}
