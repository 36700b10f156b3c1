package driver

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/testing/netns"
)

// The tests here have a real agent, a server and a client in one, on the loopback device of
// namespaces of their own: an agent mounts, and what it leaves ends with its namespaces.

// agentEnv has the agent's program, where a test is in those namespaces.
const agentEnv = "SBXHOST_TEST_NOMAD_AGENT"

// inNamespaces runs a test or a benchmark again in namespaces of its own. In there it
// gives the agent's program. To build that takes minutes, once.
func inNamespaces(tb testing.TB, args ...string) string {
	tb.Helper()
	if program := os.Getenv(agentEnv); program != "" {
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			tb.Fatal(err)
		}
		netns.Loopback(tb)
		return program
	}
	if os.Geteuid() != 0 {
		tb.Skip("an agent whose tasks have another user is root's")
	}
	if _, err := exec.LookPath("cc"); err != nil {
		tb.Skip("no C compiler to build an agent with")
	}
	driver := driverProgram(tb)
	program := filepath.Join(tb.TempDir(), "nomad")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, "github.com/hashicorp/nomad")
	build.Dir = "../../../../tools/nomad"
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=1") // of its driver exec, a part is in C
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("building the agent: %v: %s", err, out)
	}
	cmd := exec.Command("/proc/self/exe", append(args, "-test.timeout=9m")...)
	cmd.Env = append(os.Environ(), agentEnv+"="+program, "SBXHOST_TEST_BIN="+filepath.Dir(driver))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNET, Unshareflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	// The parent-death signal comes when the thread ends, and threads end with what tests lock to them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	if err != nil {
		tb.Fatalf("%v\n%s", err, out)
	}
	tb.Logf("%s", out)
	return ""
}

// An agent is a cluster of one.
type agent struct {
	testing.TB
	program string
	dir     string
	cmd     *exec.Cmd
}

func newAgent(tb testing.TB, program string) *agent {
	tb.Helper()
	dir, err := os.MkdirTemp("", "nomad-agent-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
			unix.Unmount(path, unix.MNT_DETACH) // tasks' secrets
			return nil
		})
		os.RemoveAll(dir)
	})
	a := &agent{TB: tb, program: program, dir: dir}
	err = errors.Join(os.Chmod(dir, 0o711), os.Mkdir(dir+"/plugins", 0o755), os.Mkdir(dir+"/data", 0o711), os.Mkdir(dir+"/volume", 0o777),
		os.Chmod(dir+"/volume", 0o777), os.Symlink(driverProgram(tb), dir+"/plugins/nomad-driver-sbxhost"),
		os.WriteFile(dir+"/sandboxes.hcl", []byte(definitions), 0o644))
	if err != nil {
		tb.Fatal(err)
	}
	a.configure(`sandboxes = ["plain", "online"]`)
	return a
}

// configure writes the agent's configuration, with these attributes of the plugin.
func (a *agent) configure(attributes string) {
	a.Helper()
	err := os.WriteFile(a.dir+"/agent.hcl", fmt.Appendf(nil, `
data_dir             = "%[1]s/data"
plugin_dir           = "%[1]s/plugins"
bind_addr            = "127.0.0.1"
disable_update_check = true
advertise {
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}
server {
  enabled          = true
  bootstrap_expect = 1
}
client {
  enabled           = true
  network_interface = "lo"
  # On a full disk it removes what has ended before a test reads its logs.
  gc_disk_usage_threshold  = 100
  gc_inode_usage_threshold = 100
  options = {
    "fingerprint.denylist" = "env_aws,env_gce,env_azure,env_digitalocean"
  }
  host_volume "data" {
    path = "%[1]s/volume"
  }
  chroot_env {
    "%[2]s"       = "/bin/true"
    "/etc/passwd" = "/etc/passwd"
    "/etc/group"  = "/etc/group"
  }
}
plugin "raw_exec" {
  config {
    enabled = true
  }
}
plugin "nomad-driver-sbxhost" {
  config {
    definitions = "%[1]s/sandboxes.hcl"
    %[3]s
  }
}
`, a.dir, busybox(), attributes), 0o644)
	if err != nil {
		a.Fatal(err)
	}
}

// busybox is a program that needs no library, for the chroot of the driver exec.
func busybox() string {
	path, _ := exec.LookPath("busybox")
	return path
}

// start starts the agent and waits until its node can have tasks.
func (a *agent) start() {
	a.Helper()
	log, err := os.OpenFile(a.dir+"/log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		a.Fatal(err)
	}
	defer log.Close()
	a.cmd = exec.Command(a.program, "agent", "-config="+a.dir+"/agent.hcl")
	a.cmd.Stdout, a.cmd.Stderr = log, log
	if err := a.cmd.Start(); err != nil {
		a.Fatal(err)
	}
	a.Cleanup(a.kill)
	a.until("the node is ready", func() bool {
		var nodes []struct{ Status string }
		return a.try("/v1/nodes", &nodes) == nil && len(nodes) == 1 && nodes[0].Status == "ready"
	})
}

func (a *agent) kill() {
	a.cmd.Process.Kill()
	a.cmd.Wait()
}

func (a *agent) until(what string, done func() bool) {
	a.Helper()
	for end := time.Now().Add(90 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			text, _ := os.ReadFile(a.dir + "/log")
			a.Fatalf("still not: %s\n%s", what, text[max(0, len(text)-3000):])
		}
	}
}

func (a *agent) try(path string, into any) error {
	resp, err := http.Get("http://127.0.0.1:4646" + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// nomad runs a command of the agent's program.
func (a *agent) nomad(stdin string, args ...string) (string, error) {
	cmd := exec.Command(a.program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func (a *agent) must(args ...string) string {
	a.Helper()
	out, err := a.nomad("", args...)
	if err != nil {
		a.Fatalf("nomad %q: %v\n%s", args, err, out)
	}
	return out
}

// An alloc is what became of a task, whose name is t.
type alloc struct {
	ID, JobID, ClientStatus string
	TaskStates              map[string]struct {
		Restarts int
		Events   []struct {
			Type, DisplayMessage string
			Time                 int64
			Details              map[string]string
		}
	}
}

func (a alloc) ended() bool {
	return slices.Contains([]string{"complete", "failed", "lost"}, a.ClientStatus)
}

// said is what the task's events say.
func (a alloc) said() string {
	var all strings.Builder
	for _, e := range a.TaskStates["t"].Events {
		fmt.Fprintf(&all, "%s: %s\n", e.Type, e.DisplayMessage)
	}
	return all.String()
}

// when is the time of the task's first event of a type.
func (a alloc) when(kind string) time.Time {
	for _, e := range a.TaskStates["t"].Events {
		if e.Type == kind {
			return time.Unix(0, e.Time)
		}
	}
	return time.Time{}
}

// submit runs a job of one task and gives its name. %s of the text are its name.
func (a *agent) submit(kind, group, task string) string {
	a.Helper()
	name := "job-" + strings.ToLower(rand.Text()[:8])
	file := filepath.Join(a.dir, name+".nomad")
	err := os.WriteFile(file, fmt.Appendf(nil, `
job %q {
  %s
  group "g" {
    %s
    ephemeral_disk {
      size = 20
    }
    task "t" {
      logs {
        max_files     = 1
        max_file_size = 10
      }
      resources {
        cpu    = 20
        memory = 32
      }
      %s
    }
  }
}
`, name, kind, group, task), 0o644)
	if err != nil {
		a.Fatal(err)
	}
	a.must("job", "run", "-detach", file)
	return name
}

// only is the job's only allocation, once that is so.
func (a *agent) only(job string, is func(alloc) bool) (found alloc) {
	a.Helper()
	var last []alloc
	a.until(job+" is as it should be", func() bool {
		last = nil
		if a.try("/v1/job/"+job+"/allocations", &last) != nil || len(last) == 0 {
			return false
		}
		found = last[0]
		return is(found)
	})
	return found
}

func ours(config string) string {
	return fmt.Sprintf("driver = \"sbxhost\"\nconfig {\n%s\n}\n", config)
}

const once = "restart {\nattempts = 0\nmode = \"fail\"\n}\n"

func TestAgent(t *testing.T) {
	if testing.Short() {
		t.Skip("to build an agent takes minutes")
	}
	program := inNamespaces(t, "-test.run=^TestAgent$", "-test.v")
	if program == "" {
		return
	}
	a := newAgent(t, program)
	a.configure(`sandboxes = []`)
	out, err := a.nomad("", "agent", "-config="+a.dir+"/agent.hcl")
	if err == nil || !strings.Contains(out, "sandboxes: list the names of the sandboxes that jobs may use") {
		t.Errorf("an agent starts with no sandboxes: %v\n%.3000s", err, out)
	}
	a.configure(`sandboxes = ["plain", "online"]`)
	a.start()
	sub := func(name string, f func(t *testing.T, a *agent)) {
		t.Run(name, func(t *testing.T) {
			own := *a
			own.TB = t
			f(t, &own)
			a.cmd = own.cmd
		})
	}
	// Each begins with a or b, and ends with what it checks.
	sub("batch", func(t *testing.T, a *agent) {
		name := a.submit(`type = "batch"`, once, ours(`script = "echo $NOMAD_JOB_NAME in $(pwd) of $1; id -un; echo problem >&2; exit 3"
			args = ["x"]`))
		got := a.only(name, alloc.ended)
		if got.ClientStatus != "failed" || !strings.Contains(got.said(), "Exit Code: 3") {
			t.Errorf("%s\n%s", got.ClientStatus, got.said())
		}
		if out := a.must("alloc", "logs", got.ID); out != name+" in /local of x\nnobody\n" {
			t.Errorf("%q", out)
		}
		if out := a.must("alloc", "logs", "-stderr", got.ID); out != "problem\n" {
			t.Errorf("%q", out)
		}
	})
	sub("refused", func(t *testing.T, a *agent) {
		names := map[string]string{}
		for want, task := range map[string]string{
			`config.sandbox: this node lets jobs use plain, online, not "brief"`: ours("command = \"true\"\nsandbox = \"brief\""),
			`"comand"`: ours(`comand = "true"`),
			"config.command: give either command or script":     ours(`args = ["x"]`),
			"user: tasks run as the owner of their directories": ours(`command = "true"`) + "user = \"root\"\n",
			`command not found`: ours(`command = "no-such-program"`),
		} {
			names[want] = a.submit(`type = "batch"`, once, task)
		}
		for want, name := range names {
			got := a.only(name, alloc.ended)
			if got.ClientStatus != "failed" || !strings.Contains(got.said(), want) {
				t.Errorf("%q: %s\n%s", want, got.ClientStatus, got.said())
			}
		}
	})
	sub("restarts", func(t *testing.T, a *agent) {
		name := a.submit(`type = "batch"`, "restart {\nattempts = 2\ndelay = \"100ms\"\nmode = \"fail\"\n}\n", ours(`script = "echo again >>count; exit 1"`))
		got := a.only(name, alloc.ended)
		if count := a.must("alloc", "fs", got.ID, "t/local/count"); got.TaskStates["t"].Restarts != 2 || count != "again\nagain\nagain\n" {
			t.Errorf("%d restarts, %q\n%s", got.TaskStates["t"].Restarts, count, got.said())
		}
	})
	sub("periodic", func(t *testing.T, a *agent) {
		name := a.submit("type = \"batch\"\nperiodic {\ncron = \"0 0 1 1 *\"\n}", once, ours(`command = "true"`))
		a.must("job", "periodic", "force", name)
		var jobs []struct{ ID string }
		a.until("it runs", func() bool { return a.try("/v1/jobs?prefix="+name+"/", &jobs) == nil && len(jobs) == 1 })
		if got := a.only(jobs[0].ID, alloc.ended); got.ClientStatus != "complete" {
			t.Error(got.said())
		}
	})
	sub("dispatches", func(t *testing.T, a *agent) {
		name := a.submit("type = \"batch\"\nparameterized {\npayload = \"required\"\n}", once, ours(`script = "cat payload"`)+"dispatch_payload {\nfile = \"payload\"\n}\n")
		got := a.wait(a.dispatch(name, "hello"))
		if out := a.must("alloc", "logs", got[0].ID); out != "hello" {
			t.Errorf("%q\n%s", out, got[0].said())
		}
		var ids []string
		for i := range 50 {
			ids = append(ids, a.dispatch(name, fmt.Sprint(i)))
		}
		for _, got := range a.wait(ids...) {
			if got.ClientStatus != "complete" {
				t.Errorf("%s\n%s", got.ClientStatus, got.said())
			}
		}
	})
	sub("group network and volume", func(t *testing.T, a *agent) {
		name := a.submit(`type = "batch"`, once+"network {\nmode = \"none\"\n}\nvolume \"v\" {\ntype = \"host\"\nsource = \"data\"\n}\n",
			ours("sandbox = \"online\"\nscript = \"echo kept >/v/file; tail -n +3 /proc/net/dev | cut -d: -f1; readlink /proc/self/ns/net\"")+"volume_mount {\nvolume = \"v\"\ndestination = \"/v\"\n}\n")
		got := a.only(name, alloc.ended)
		own, err := os.Readlink("/proc/self/ns/net")
		if out := a.must("alloc", "logs", got.ID); err != nil || strings.Contains(out, own) || !strings.HasPrefix(strings.TrimSpace(out), "lo\n") {
			t.Errorf("%q in %s\n%s", out, own, got.said())
		}
		if text, err := os.ReadFile(a.dir + "/volume/file"); string(text) != "kept\n" {
			t.Errorf("%q, %v", text, err)
		}
	})
	sub("service", func(t *testing.T, a *agent) {
		name := a.submit(`type = "service"`, "", ours(`script = "trap 'echo hup' HUP; trap 'echo bye; exit 0' INT; echo up; while :; do sleep 0.1; done"`))
		running := func() alloc {
			t.Helper()
			return a.only(name, func(x alloc) bool { return x.ClientStatus == "running" && !x.when("Started").IsZero() })
		}
		logs := func(want string) {
			t.Helper()
			a.until("the log is "+want, func() bool {
				out, err := a.nomad("", "alloc", "logs", a.only(name, func(alloc) bool { return true }).ID)
				return err == nil && out == want
			})
		}
		id := running().ID
		logs("up\n")
		a.must("alloc", "signal", "-s", "SIGHUP", id)
		logs("up\nhup\n")
		out, err := a.nomad("typed", "alloc", "exec", "-i", "-t=false", id, "sh", "-c", "cat; id -un >&2; exit 7")
		if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 7 || !strings.Contains(out, "typed") || !strings.Contains(out, "nobody\n") {
			t.Errorf("%q, %v", out, err)
		}
		terminal := exec.Command("script", "-qec", a.program+" alloc exec -i -t "+id+" sh -c 'tty; exit 8'", "/dev/null")
		text, err := terminal.CombinedOutput()
		if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 8 || !bytes.Contains(text, []byte("/dev/")) {
			t.Errorf("a terminal: %q, %v", text, err)
		}
		same := func(after string) {
			t.Helper()
			if got := running(); got.ID != id || got.TaskStates["t"].Restarts != 0 {
				t.Errorf("after %s: %s", after, got.said())
			}
			a.until("it can be entered after "+after, func() bool {
				out, err := a.nomad("", "alloc", "exec", "-t=false", id, "echo", "there")
				return err == nil && out == "there\n"
			})
		}
		for _, pid := range a.drivers() {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				t.Error(err)
			}
		}
		same("the driver was killed")
		a.kill()
		a.start()
		same("the agent was killed")
		for _, pid := range a.drivers() { // both: the agent has found its old one
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				t.Error(err)
			}
		}
		a.kill()
		a.start()
		same("agent and driver were killed")
		a.must("alloc", "signal", "-s", "SIGHUP", id)
		logs("up\nhup\nhup\n")
		a.must("job", "stop", "-detach", name)
		if got := a.only(name, alloc.ended); !strings.Contains(got.said(), "Exit Code: 0") {
			t.Error(got.said())
		}
		logs("up\nhup\nhup\nbye\n")
		a.until("no executor is left", func() bool {
			left, err := filepath.Glob("/run/nomad-driver-sbxhost/*/socket")
			return err == nil && !slices.ContainsFunc(left, a.alive)
		})
	})
}

// alive says whether an executor of this agent listens there.
func (a *agent) alive(socket string) bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		a.Fatal(err)
	}
	defer unix.Close(fd)
	if unix.Connect(fd, &unix.SockaddrUnix{Name: socket}) != nil {
		return false
	}
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	return err == nil && peer.Pid > 0 // of another namespace it is zero
}

// drivers are the processes of the driver, without executors.
func (a *agent) drivers() (pids []int) {
	a.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		a.Fatal(err)
	}
	for _, line := range lines {
		text, _ := os.ReadFile(line)
		if string(text) == a.dir+"/plugins/nomad-driver-sbxhost\x00" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(line)))
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 {
		a.Fatal("no driver runs")
	}
	return pids
}

// dispatch gives the name of the job that it makes.
func (a *agent) dispatch(job, payload string) string {
	a.Helper()
	text, err := json.Marshal(map[string]any{"Payload": []byte(payload)})
	if err != nil {
		a.Fatal(err)
	}
	resp, err := http.Post("http://127.0.0.1:4646/v1/job/"+job+"/dispatch", "application/json", bytes.NewReader(text))
	if err != nil {
		a.Fatal(err)
	}
	defer resp.Body.Close()
	var made struct{ DispatchedJobID string }
	if err := json.NewDecoder(resp.Body).Decode(&made); err != nil || made.DispatchedJobID == "" {
		a.Fatalf("%s: %v", resp.Status, err)
	}
	return made.DispatchedJobID
}

// wait waits for the end of jobs of one task.
func (a *agent) wait(jobs ...string) (ended []alloc) {
	a.Helper()
	a.until(fmt.Sprintf("%d jobs have ended", len(jobs)), func() bool {
		var all []alloc
		if a.try("/v1/allocations", &all) != nil {
			return false
		}
		ended = slices.DeleteFunc(all, func(x alloc) bool { return !x.ended() || !slices.Contains(jobs, x.JobID) })
		return len(ended) == len(jobs)
	})
	return ended
}

// BenchmarkDispatch compares drivers in one run: what a dispatched task costs from the
// making of its directory to its start, and how long 50 at once take until all have ended.
//
//	go test ./integrations/nomad/internal/driver -run '^$' -bench Dispatch -benchtime 1x -v
func BenchmarkDispatch(b *testing.B) {
	program := inNamespaces(b, "-test.run=^$", "-test.bench=^BenchmarkDispatch$", "-test.benchtime=1x")
	if program == "" {
		return
	}
	a := newAgent(b, program)
	a.start()
	for _, driver := range []string{"raw_exec", "exec", "sbxhost", "raw_exec", "exec", "sbxhost"} {
		b.Run(driver, func(b *testing.B) {
			own := *a
			own.TB = b
			a := &own
			name := a.submit("type = \"batch\"\nparameterized {\n}", once, fmt.Sprintf("driver = %q\nconfig {\ncommand = \"/bin/true\"\n}\n", driver))
			var single []time.Duration
			for range 5 {
				got := a.wait(a.dispatch(name, ""))[0]
				if got.ClientStatus != "complete" {
					b.Fatal(got.said())
				}
				single = append(single, got.when("Started").Sub(got.when("Task Setup")))
			}
			slices.Sort(single)
			var ids []string
			begin := time.Now()
			for range 50 {
				ids = append(ids, a.dispatch(name, ""))
			}
			a.wait(ids...)
			b.ReportMetric(float64(time.Since(begin).Milliseconds()), "ms/50")
			b.ReportMetric(float64(single[len(single)/2].Milliseconds()), "ms/start")
			b.ReportMetric(0, "ns/op")
		})
	}
}
