package contract

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// commandRules are about the command that runs, and its inputs.
func commandRules() []Rule {
	return []Rule{
		{ID: "command.01", Title: "the environment is exact", run: func(s *subject) {
			// An engine may set TMPDIR if a command has none, because its sandboxes have no /tmp.
			env := []string{"TMPDIR=" + s.WS, "PATH=/usr/bin:/bin", "ONE=1", "EMPTY=", "TWO=a b\tc", "A=line\nline", `B="'$(x)` + "`y`",
				"C==x=", "D=\u00e9\u4e16\xff\xfe", "E=-x", "F=%s\\0", "lower.case-name=1"}
			for i := range 1000 {
				env = append(env, fmt.Sprintf("VARIABLE_%d=%090d", i, i))
			}
			end, plain := "\x00", s.program("cat", "/proc/self/environ")
			commands := []shared.Command{plain, s.script("cat /proc/$$/environ; exit 0")} // a shell does not replace itself by this last command
			if runtime.GOOS != "linux" {
				plain.Args = []string{"env"}
				end, commands = "\n", []shared.Command{plain}
			}
			for _, cmd := range commands {
				cmd.Env = env
				s.exits(s.once(cmd, nil), 0, strings.Join(env, end)+end)
			}
		}},
		{ID: "command.02", Title: "arguments are exact", run: exactArguments},
		{ID: "command.03", Title: "the working directory", run: func(s *subject) {
			sandbox, cmd := s.open(), s.sh("pwd")
			for _, cmd.Dir = range []string{s.WS, s.Path("ws/sub")} {
				s.exits(s.run(sandbox, cmd, nil), 0, cmd.Dir+"\n")
			}
		}},
		{ID: "command.04", Title: "a script, with its parameters and input", run: func(s *subject) {
			r, w := s.Pipe()
			fed := s.Feed(w, strings.NewReader("input\n"))
			s.exits(s.once(s.script(`false; : "$unset"; read line; printf '%s|' "$line" "$@"; exit 3`, "one", "two words", ""), r), 3, "input|one|two words||")
			fed()
		}},
		{ID: "command.05", Title: "a script of 2 MB", run: func(s *subject) {
			s.exits(s.once(s.script("x='"+strings.Repeat("y", 2_000_000)+"'\necho ${#x}\nexit 4\n"), nil), 4, "2000000\n")
		}},
		{ID: "command.06", Title: "a command is looked up in the PATH of its environment", run: lookedUp},
		{ID: "command.07", Title: "a command that is not there is ErrNotFound", run: func(s *subject) {
			s.refused(shared.ErrNotFound, map[string]string{
				"a name": "sbxhost-no-such-command", "a path": "/no/such/command", "an empty name": "",
			})
		}},
		{ID: "command.19", Title: "a command whose interpreter is not there is ErrNotFound", run: func(s *subject) {
			s.Must(s.Write("ws/lost", "#!/no/such/interpreter\n"))
			p, err := s.open().Start(s.Ctx, s.program(s.Path("ws/lost")), shared.Stdio{})
			if err != nil {
				s.Wants("Start", err, shared.ErrNotFound)
			} else if r := s.wait(p); r.Status.Code != 126 && r.Status.Code != 127 { // of a launcher that executes it
				s.Failf("it was started, and ended with %v", r.Status)
			}
		}},
		{ID: "command.08", Title: "a command that cannot be executed is ErrNotExecutable", run: func(s *subject) {
			s.Must(s.Write("ws/plain", "text"))
			s.refused(shared.ErrNotExecutable, map[string]string{
				"a directory": s.WS, "a file without the permission": s.Path("ws/plain"),
			})
		}},
		{ID: "command.10", Title: "Plan runs nothing, and shows no value of a variable", run: plans},
		{ID: "command.11", Title: "commands of one sandbox do not see each other's processes", Features: shared.Features{shared.FeatureProcessesHidden}, run: apart},
		{ID: "command.13", Title: "the mask of file modes is no weaker, and the priority no higher, than the engine's own", run: maskAndPriority},
		{ID: "command.16", Title: "a trace tells what a command failed at, and is all that it changes", Features: shared.Features{shared.FeatureTrace}, run: tracedCommand},
		{ID: "command.14", Title: "no error tells the value of a variable", run: func(s *subject) {
			sandbox := s.open()
			for name, change := range map[string]func(*shared.Command){
				"no such command":   func(c *shared.Command) { c.Args = []string{"sbxhost-no-such-command"} },
				"no such directory": func(c *shared.Command) { c.Dir = "/no/such/directory" },
				"a bad variable":    func(c *shared.Command) { c.Env = append(c.Env, s.Canary) },
				"a terminal":        func(c *shared.Command) { c.TTY = true },
			} {
				cmd := s.sh("exit 0")
				cmd.Env = append(slices.Clone(cmd.Env), "TOKEN="+s.Canary)
				change(&cmd)
				s.Check(name, func() {
					_, planErr := sandbox.Plan(s.Ctx, cmd)
					told := fmt.Sprint(s.notStarted(sandbox, cmd, shared.Stdio{}), planErr)
					s.Demand(!strings.Contains(told, s.Canary), "the error has it: %s", scene.Tail(told))
				})
			}
		}},
		{ID: "command.15", Title: "what Plan says is what runs: the launcher's words, each mount and its access", run: planned},
		{ID: "command.17", Title: "what is written to an overlay is where KeptOverlay says, and not in its source", Features: shared.Features{shared.FeatureOverlayKept}, run: keptOverlay},
		{ID: "command.20", Title: "in a session without an ID, each command has an overlay of its own, which ends with it", Features: shared.Features{shared.FeatureOverlay}, run: ownOverlay},
		{ID: "command.18", Title: "the secret of a credential is in no plan, event, variable or argument", Features: shared.Features{shared.FeatureNetworkInject}, run: keptSecret},
		{ID: "command.21", Title: "to a host of a credential, the engine is the server of TLS, and goes on to no host whose certificate nobody trusts", Features: shared.Features{shared.FeatureNetworkInject}, run: terminates},
		{ID: "command.12", Title: "a command has its three files and no other, and finds signals neither blocked nor ignored", run: plainProcess},
	}
}

// script is a Command with a Script.
func (s *subject) script(text string, args ...string) shared.Command {
	cmd := s.program(args...)
	cmd.Script = text
	return cmd
}

// refused fails the case unless Start fails for each command.
func (s *subject) refused(kind error, commands map[string]string) {
	sandbox := s.open()
	for name, program := range commands {
		s.Check(name, func() { s.Wants("Start", s.notStarted(sandbox, s.program(program), shared.Stdio{}), kind) })
	}
}

func lookedUp(s *subject) {
	const name = "sbxhost-probe-tool"
	s.Must(s.Write("ws/sub/"+name, "#!/bin/sh\necho $0 $1\n"))
	cmd := s.sh("")
	cmd.Args, cmd.Env = []string{name, "one"}, []string{"PATH=/usr/bin:" + s.Path("ws/sub")}
	s.exits(s.once(cmd, nil), 0, s.Path("ws/sub", name)+" one\n")
}

func plans(s *subject) {
	sandbox := s.open()
	before, err := filepath.Glob(s.Path("ws/*"))
	s.Must(err)
	cmd := s.sh("touch made")
	cmd.Env = append(cmd.Env, "TOKEN="+s.Canary)
	plan, err := sandbox.Plan(s.Ctx, cmd)
	s.Must(err)
	after, _ := filepath.Glob(s.Path("ws/*"))
	s.Demand(len(plan.Argv) > 0, "there is no command line")
	s.Demand(!strings.Contains(fmt.Sprintf("%q", plan), s.Canary), "it has the value of a variable: %s", scene.Tail(fmt.Sprintf("%q", plan)))
	s.Demand(slices.Equal(before, after), "it ran the command, or made something: %q became %q", before, after)
	// The control: Start does.
	s.run(sandbox, cmd, nil)
	_, err = os.Stat(s.Path("ws/made"))
	s.Must(err)
}

// keptOverlay looks at KeptOverlay for what a command writes to its workspace.
func keptOverlay(s *subject) {
	spec := s.inSession(shared.Session{ID: s.Canary})
	spec.Table[0].Access = shared.Overlay
	sandbox := s.OpenAs(spec)
	upper, lock := shared.KeptOverlay(&spec.Session, uint32(os.Geteuid()), s.WS)
	p, _ := s.started(sandbox, "echo kept >made && rm file && rm -r keys && mkdir keys && cat made"+forever)
	s.Check("the lock", func() {
		f, err := os.OpenFile(lock, os.O_RDWR, 0)
		s.Must(err)
		defer f.Close()
		s.Wants("a second lock while it is mounted", syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
	})
	s.endNow(p)
	s.Must(sandbox.Close(s.Ctx))
	text, err := os.ReadFile(filepath.Join(upper, "made"))
	s.Demand(err == nil && string(text) == "kept\n", "there it is %q: %v", text, err)
	s.keptAsKernelDoes(upper)
	s.Demand(scene.HostHas(s.Path("ws/made")) == nil, "it is in the workspace")
}

// ownOverlay makes commands write to an overlay, one after another and at once.
func ownOverlay(s *subject) {
	spec := s.inSession(shared.Session{})
	spec.Table[0].Access = shared.Overlay
	sandbox := s.OpenAs(spec)
	const write = "test ! -e made && echo own >made && cat made"
	in, goOn := s.Pipe()
	r, w := s.Pipe()
	p := s.begin(sandbox, s.sh(write+"; echo made; read -r line; cat made; echo end"), shared.Stdio{Stdin: in, Stdout: w})
	out := s.until(r, "made\n")
	s.Demand(out == "own\nmade\n", "the first command: %q", out)
	s.prints(sandbox, write, "own\n")
	goOn.WriteString("\n")
	out = s.until(r, "end\n")
	s.Demand(out == "own\nend\n", "the first command, after the second: %q", out)
	s.endNow(p)
	s.prints(sandbox, write, "own\n")
	s.Demand(scene.HostHas(s.Path("ws/made")) == nil, "it is in the workspace")
}

// placeholder stands for the secret of a credential.
const placeholder = "placeholder-of-a-secret"

// injecting is a network with a credential for a name, which a rule lists.
func injecting(name, rule string, certificate shared.Secret, secret string) shared.Network {
	return shared.Network{Mode: shared.NetworkNames, Names: []string{rule}, Inject: shared.Injection{Certificate: certificate,
		Credentials: []shared.Credential{{Hosts: []string{name}, Header: "Authorization", Placeholder: placeholder, Value: shared.Secret(secret)}}}}
}

// keptSecret looks for a secret where a command, or anybody on the machine, could find it.
func keptSecret(s *subject) {
	spec := s.spec()
	spec.Network = injecting("name.example", "name.example", s.certificate("name.example"), s.Canary)
	sandbox := s.OpenAs(spec)
	cmd := s.sh("cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n'; env; echo end" + forever)
	plan, err := sandbox.Plan(s.Ctx, cmd)
	s.Must(err)
	p, r := s.piped(sandbox, cmd)
	inside := s.until(r, "end\n")
	outside := actor.Search(s.Canary, "/proc/[0-9]*/cmdline")
	s.endNow(p)
	told := fmt.Sprintf("%q", plan)
	for e := range p.Events() {
		told += fmt.Sprintf("%q", e)
	}
	s.Demand(outside == "" && !strings.Contains(inside+told, s.Canary), "it is there: %s %s %s", outside, scene.Tail(inside), scene.Tail(told))
}

// terminates makes a command send a request to a host of a credential; the host is this machine.
func terminates(s *subject) {
	name, err := os.Hostname()
	s.Must(err)
	name = strings.ToLower(name)
	addr, err := net.ResolveTCPAddr("tcp4", name+":443")
	s.Needs(err == nil, "the machine's own name has no address: %v", err)
	l, err := net.ListenTCP("tcp4", addr)
	s.Needs(err == nil, "nothing can listen where hosts of credentials do: %v", err)
	form := func(text shared.Secret) tls.Certificate {
		pair, err := tls.X509KeyPair([]byte(text), []byte(text))
		s.Must(err)
		return pair
	}
	real, own := form(s.certificate(name)), s.certificate(name)
	got := make(chan string, 16)
	s.Serve(l, func(c net.Conn) {
		c.SetDeadline(time.Now().Add(s.Patience()))
		text := make([]byte, 4096)
		if n, _ := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{real}}).Read(text); n > 0 {
			got <- string(text[:n])
		}
	})
	spec := s.spec()
	spec.Network = injecting(name, name+":443 private", own, s.Canary)
	o := s.run(s.OpenAs(spec), s.inside("request", name, "Authorization: "+placeholder), nil)
	want := fmt.Sprintf("%x ", sha256.Sum256(form(own).Certificate[0]))
	s.Demand(strings.HasPrefix(o.Verdict.Detail, want), "the command finds another certificate, or none: %s", o.Output())
	l.Close()
	select {
	case text := <-got:
		s.Failf("a server with a certificate that nobody trusts gets the request: %s", scene.Tail(text))
	default:
	}
}

// certificate returns a certificate for a name, issued by itself, and its key.
func (s *subject) certificate(name string) shared.Secret {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.Must(err)
	form := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	s.Must(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	s.Must(err)
	return shared.Secret(slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
}

// planned compares a plan with what the command finds, and with what runs on the machine.
func planned(s *subject) {
	sandbox := s.open()
	_, err := sandbox.Plan(s.Ctx, s.sh("exit 0 # never run"))
	s.Must(err)
	cmd := s.sh("cat /proc/self/mountinfo; echo; echo end; sleep 61.5; exit 0")
	plan, err := sandbox.Plan(s.Ctx, cmd)
	s.Must(err)
	for _, e := range s.spec().Table { // an engine may leave all of them out
		if len(plan.Mounts) > 0 && !slices.ContainsFunc(plan.Mounts, func(m shared.PlannedMount) bool { return m.Destination == e.Path }) {
			s.Faultf(e.Path, "it is shown, and the plan does not have it among its mounts")
		}
	}
	p, r := s.piped(sandbox, cmd)
	type mounted struct {
		writable bool
		source   string // on its file system
	}
	inside := map[string]mounted{}
	for line := range strings.Lines(s.until(r, "\nend\n")) {
		if fields := strings.Fields(line); len(fields) > 5 { // of several at one place, the last is on top
			inside[fields[4]] = mounted{slices.Contains(strings.Split(fields[5], ","), "rw"), fields[3]}
		}
	}
	s.Check("the launcher", func() { s.Until(func() error { return running(plan.Argv) }) })
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
			s.Faultf(m.Destination, "the plan mounts it, and nothing is mounted there")
		} else if m.Op == "ro-bind" && at.writable {
			s.Faultf(m.Destination, "the plan has it read-only, and it is writable")
		}
	}
	for place, m := range inside {
		ours := strings.Contains(m.source, filepath.Base(s.Kit.Dir)) // and none that a daemon adds
		if len(plan.Mounts) > 0 && ours && m.writable && !writable[place] {
			s.Faultf(place, "it is a writable mount, which the plan does not have")
		}
	}
}

func apart(s *subject) {
	sandbox := s.open()
	p, _ := s.started(sandbox, "sleep 61.25 & echo; wait")
	o := s.run(sandbox, s.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '"), nil)
	s.Demand(!strings.Contains(o.Stdout, "sleep 61.25"), "one sees the other")
	s.endNow(p)
}

// maskAndPriority compares what a command inherits from its launcher with this process.
func maskAndPriority(s *subject) {
	read := func(text string) (mask uint32, nice int) {
		_, err := fmt.Sscanf(strings.Join(strings.Fields(text), " "), "%o %d", &mask, &nice)
		s.Must(err)
		return mask, nice
	}
	// Without a program nice, the priority is not compared.
	mask, nice := read(s.once(s.sh("umask; nice 2>/dev/null || echo 19"), nil).Stdout)
	text, err := exec.Command("/bin/sh", "-c", "umask; nice 2>/dev/null || echo -20").Output()
	s.Must(err)
	ownMask, ownNice := read(string(text))
	s.Demand(ownMask&^mask == 0 && nice >= ownNice, "the mask is %#o and the niceness %d, and the engine's own %#o and %d", mask, nice, ownMask, ownNice)
}

// plainProcess is for engines that do not isolate, too, which have no probes.
func plainProcess(s *subject) {
	s.Needs(runtime.GOOS == "linux", "there is no /proc here")
	for _, script := range []bool{false, true} {
		t := s.Trying("descriptors")
		t.Script = script
		o := s.once(s.Command(t), nil)
		s.Demand(o.Verdict.Kind == actor.Denied, "more descriptors are open, with a script: %v: %s", script, o.Output())
	}
	signalState(s)
}

func tracedCommand(s *subject) {
	long, nobody := "/sbxhost-"+strings.Repeat("n", 200), "192.0.2.1:9" // to which there is no way
	dial := s.inside("dial", "tcp", nobody, "nothing")
	dials := s.spec().Network.Mode == shared.NetworkNone && !strings.Contains(s.once(dial, nil).Verdict.Detail, "socket: ") // where that can be made
	if !dials {
		dial = s.sh(":")
	}
	cmd := s.sh("cd / && cat sbxhost-none $1 2>/dev/null; $1 2>/dev/null; shift; \"$@\"; exit 6", append([]string{long}, dial.Args...)...)
	cmd.Env = dial.Env
	calls := func() (list []shared.TracedCall) {
		p := s.begin(s.open(), cmd, shared.Stdio{})
		s.exitsWith(p, 6)
		for e := range p.Events() {
			if e.Kind == shared.EventTraced {
				s.Must(json.Unmarshal([]byte(e.Details["calls"]), &list))
			}
		}
		return list
	}
	traced := calls()
	s.Demand(len(traced) == 0, "nobody has asked for %+v", traced)
	cmd.Trace = true
	traced = calls()
	for target, wants := range map[string][]string{"/sbxhost-none": {"read"}, long: {"read", "execute"}} {
		for _, want := range wants {
			call := shared.TracedCall{Wants: want, Target: target, Error: "ENOENT"}
			s.Demand(slices.Contains(traced, call), "%+v is not among the calls that are told: %+v", call, traced)
		}
	}
	connects := slices.ContainsFunc(traced, func(c shared.TracedCall) bool { return c.Wants == "connect" && c.Target == nobody })
	s.Demand(connects || !dials, "the address is not among the calls that are told: %+v", traced)
}

func exactArguments(s *subject) {
	args := []string{"", " ", "-x", "--", "--help", "a\nb", `"'\`, "$HOME", "*", "\u00e9", "\xff\xfe", "--bind", "/", "/", "\n", "a\n", strings.Repeat("y", 100_000)}
	args = append(args, slices.Repeat([]string{"one of many"}, 2000)...)
	s.exits(s.once(s.sh(`printf '%s\0' "$@"`, args...), nil), 0, strings.Join(args, "\x00")+"\x00")
}

// librarySignals are 32 and 33, which no program gets to see: glibc keeps them for
// itself, and its posix_spawn, by which make starts a shell, leaves them ignored.
const librarySignals = 3 << 31

// signalState reads the dispositions that a fresh program finds. A Go program
// changes its own.
func signalState(s *subject) {
	o := s.once(s.program("/bin/cat", "/proc/self/status"), nil)
	s.died(o, shared.ExitStatus{})
	for line := range strings.Lines(o.Stdout) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		if name != "SigBlk" && name != "SigIgn" {
			continue
		}
		set, err := strconv.ParseUint(value, 16, 64)
		s.Demand(err == nil && set&^librarySignals == 0, "%s is %s", name, value)
	}
}
