package nomad

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	baseproto "github.com/hashicorp/nomad/plugins/base/proto"
	"github.com/hashicorp/nomad/plugins/drivers/proto"
	"github.com/zclconf/go-cty/cty"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sbxhost/sbxhost/shared/proc"
	"github.com/sbxhost/sbxhost/test/programs"
)

// The tests here are the agent's side: they start the driver as an agent does, and speak
// Nomad's protocol to it.

func TestMain(m *testing.M) {
	code := m.Run()
	programs.Remove()
	os.Exit(code)
}

const definitions = `
sandbox "plain" {
  engine = "native"
}
sandbox "online" {
  engine  = "native"
  network = true
}
sandbox "brief" {
  engine = "native"
  limits { timeout = "5s" }
}
`

// A rig is an agent's side, and one allocation with its directories.
type rig struct {
	*testing.T
	dir   string // where everything is; users may search it
	plug  *plugin.Client
	base  baseproto.BasePluginClient
	calls proto.DriverClient
}

func newRig(t *testing.T) *rig {
	t.Parallel()
	// Not t.TempDir, which root alone can search.
	dir, err := os.MkdirTemp("", "nomad-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := &rig{T: t, dir: dir}
	if err := errors.Join(os.Chmod(dir, 0o711), os.Mkdir(dir+"/run", 0o700), os.WriteFile(dir+"/sandboxes.hcl", []byte(definitions), 0o644)); err != nil {
		t.Fatal(err)
	}
	r.startDriver()
	return r
}

// driverProgram is the driver, with sbxhost-init beside it.
func driverProgram(tb testing.TB) string {
	tb.Helper()
	dir, err := programs.Dir("integrations/nomad/nomad-driver-sbxhost", "shared/sandboxinit/sbxhost-init")
	if err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(dir, "nomad-driver-sbxhost")
}

// startDriver starts the driver in the place of one that there was.
func (r *rig) startDriver() {
	r.Helper()
	cmd := exec.Command(driverProgram(r))
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+r.dir+"/run")
	r.plug = plugin.NewClient(&plugin.ClientConfig{HandshakeConfig: handshake, Cmd: cmd, AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Plugins: plugin.PluginSet{"base": service{}, "driver": service{}}, Logger: hclog.NewNullLogger()})
	r.Cleanup(r.plug.Kill)
	client, err := r.plug.Client()
	if err != nil {
		r.Fatal(err)
	}
	conn, err := client.Dispense("driver")
	if err != nil {
		r.Fatal(err)
	}
	r.base, r.calls = baseproto.NewBasePluginClient(conn.(*grpc.ClientConn)), proto.NewDriverClient(conn.(*grpc.ClientConn))
	if err := r.configure("plain", "online", "brief"); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) configure(sandboxes ...string) error {
	_, err := r.base.SetConfig(r.Context(), &baseproto.SetConfigRequest{PluginApiVersion: apiVersion,
		MsgpackConfig: encode(r, agentAttrs, map[string]cty.Value{"definitions": cty.StringVal(r.dir + "/sandboxes.hcl"), "sandboxes": words(sandboxes...)})})
	return err
}

// A job is one task with its logs.
type job struct {
	*rig
	config *proto.TaskConfig
	handle *proto.TaskHandle
	stdout chan string // all of it, at its end
	stderr chan string
}

// task makes what an agent makes for a task.
func (r *rig) task(values map[string]cty.Value) *job {
	r.Helper()
	id := rand.Text()
	alloc := filepath.Join(r.dir, id)
	j := &job{rig: r, config: &proto.TaskConfig{Id: id, Name: "t", AllocId: id, AllocDir: alloc, MsgpackDriverConfig: encode(r, jobAttrs, values),
		Env: map[string]string{"NOMAD_TASK_DIR": "/local", "NOMAD_ALLOC_DIR": "/alloc", "NOMAD_SECRETS_DIR": "/secrets"}}}
	for _, dir := range []string{"alloc/logs", "alloc/data", "t/local", "t/secrets"} {
		if err := os.MkdirAll(filepath.Join(alloc, dir), 0o777); err != nil {
			r.Fatal(err)
		}
	}
	err := filepath.WalkDir(alloc, func(path string, _ os.DirEntry, err error) error {
		if err == nil && path != alloc {
			err = os.Chmod(path, 0o777)
			if os.Getuid() == 0 {
				err = errors.Join(err, os.Chown(path, 65534, 65534))
			}
		}
		return err
	})
	if err != nil {
		r.Fatal(err)
	}
	log := func(name string) (string, chan string) {
		path := filepath.Join(alloc, "alloc/logs", name)
		if err := unix.Mkfifo(path, 0o600); err != nil {
			r.Fatal(err)
		}
		all := make(chan string, 1)
		go func() {
			text, _ := os.ReadFile(path)
			all <- string(text)
		}()
		return path, all
	}
	j.config.StdoutPath, j.stdout = log(".t.stdout.fifo")
	j.config.StderrPath, j.stderr = log(".t.stderr.fifo")
	return j
}

func script(text string, args ...string) map[string]cty.Value {
	return map[string]cty.Value{"script": cty.StringVal(text), "args": words(args...)}
}

func in(sandbox string, values map[string]cty.Value) map[string]cty.Value {
	values["sandbox"] = cty.StringVal(sandbox)
	return values
}

func (j *job) tryStart() error {
	resp, err := j.calls.StartTask(j.Context(), &proto.StartTaskRequest{Task: j.config})
	if err == nil {
		j.handle = resp.Handle
		j.Cleanup(func() {
			j.calls.DestroyTask(context.Background(), &proto.DestroyTaskRequest{TaskId: j.config.Id, Force: true})
			j.decoded().kill() // if its driver was killed
		})
	}
	return err
}

func (j *job) start() *job {
	j.Helper()
	if err := j.tryStart(); err != nil {
		j.Fatal(err)
	}
	return j
}

func (j *job) wait() *proto.WaitTaskResponse {
	j.Helper()
	resp, err := j.calls.WaitTask(j.Context(), &proto.WaitTaskRequest{TaskId: j.config.Id})
	if err != nil {
		j.Fatal(err)
	}
	return resp
}

func (j *job) stop(grace time.Duration) {
	j.Helper()
	if _, err := j.calls.StopTask(j.Context(), &proto.StopTaskRequest{TaskId: j.config.Id, Timeout: durationpb.New(grace), Signal: "SIGINT"}); err != nil {
		j.Fatal(err)
	}
}

// local is a file of the task.
func (j *job) local(name string) string {
	return filepath.Join(j.config.AllocDir, "t/local", name)
}

// until waits for something that another process does.
func (r *rig) until(what string, done func() bool) {
	r.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("still not: %s", what)
		}
	}
}

func (j *job) untilFile(name string) {
	j.Helper()
	j.until(name+" is there", func() bool { _, err := os.Stat(j.local(name)); return err == nil })
}

func TestIntroduction(t *testing.T) {
	r := newRig(t)
	info, err := r.base.PluginInfo(t.Context(), &baseproto.PluginInfoRequest{})
	if err != nil || info.Name != "sbxhost" || info.Type != baseproto.PluginType_DRIVER || !slices.Equal(info.PluginApiVersions, []string{"v0.1.0"}) || info.PluginVersion == "" {
		t.Errorf("%v, %v", info, err)
	}
	agent, err := r.base.ConfigSchema(t.Context(), &baseproto.ConfigSchemaRequest{})
	if err != nil || !agent.Spec.GetObject().Attributes["sandboxes"].GetAttr().Required {
		t.Errorf("%v, %v", agent, err)
	}
	job, err := r.calls.TaskConfigSchema(t.Context(), &proto.TaskConfigSchemaRequest{})
	if err != nil || job.Spec.GetObject().Attributes["args"].GetAttr().Type != "list(string)" {
		t.Errorf("%v, %v", job, err)
	}
	c, err := r.calls.Capabilities(t.Context(), &proto.CapabilitiesRequest{})
	if err != nil || !c.Capabilities.SendSignals || !c.Capabilities.Exec || c.Capabilities.FsIsolation != proto.DriverCapabilities_IMAGE ||
		slices.Contains(c.Capabilities.NetworkIsolationModes, proto.NetworkIsolationSpec_GROUP) != (os.Geteuid() == 0) {
		t.Errorf("%v, %v", c, err)
	}
	if err := r.configure(); err == nil || !strings.Contains(err.Error(), "sandboxes: ") {
		t.Errorf("no sandbox may be used: %v", err)
	}
}

func TestFingerprint(t *testing.T) {
	r := newRig(t)
	look := func() *proto.FingerprintResponse {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := r.calls.Fingerprint(ctx, &proto.FingerprintRequest{})
		if err != nil {
			t.Fatal(err)
		}
		print, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return print
	}
	if print := look(); print.Health != proto.FingerprintResponse_HEALTHY || !print.Attributes["driver.sbxhost.engine.native"].GetBoolVal() || !print.Attributes["driver.sbxhost.sandbox.plain"].GetBoolVal() {
		t.Errorf("%v", print)
	}
	write := func(text string) {
		if err := os.WriteFile(r.dir+"/sandboxes.hcl", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(definitions + "sandbox \"lost\" {\n  bind_paths = [\"/no/such/place\"]\n}\n")
	if err := r.configure("plain", "lost"); err != nil {
		t.Fatal(err)
	}
	if print := look(); print.Health != proto.FingerprintResponse_HEALTHY || print.Attributes["driver.sbxhost.sandbox.lost"] != nil || !strings.Contains(print.HealthDescription, "/no/such/place") {
		t.Errorf("one sandbox works: %v", print)
	}
	write(definitions + "sandbox \"plain\" {}\n")
	if print := look(); print.Health != proto.FingerprintResponse_UNHEALTHY || !strings.Contains(print.HealthDescription, "sandboxes.hcl") {
		t.Errorf("the file has errors: %v", print)
	}
	write("")
	if print := look(); print.Health != proto.FingerprintResponse_UNHEALTHY {
		t.Errorf("nothing is defined: %v", print)
	}
}

// What a task has, and how it ends, is as Nomad's documents say.
func TestTask(t *testing.T) {
	r := newRig(t)
	j := r.task(script(`echo "$1 in $PWD"; echo to stderr >&2
		echo local >$NOMAD_TASK_DIR/a && echo alloc >$NOMAD_ALLOC_DIR/data/b && echo secret >$NOMAD_SECRETS_DIR/c
		for file in /alloc/logs/x /usr/x; do (: >$file) 2>/dev/null && echo "wrote $file"; done
		ls -d /alloc/* | tr '\n' ' '; exit 3`, "first")).start()
	if got := j.wait(); got.Err != "" || got.Result.ExitCode != 3 || got.Result.Signal != 0 {
		t.Errorf("%v", got)
	}
	if out, want := <-j.stdout, "first in /local\n/alloc/data /alloc/logs "; out != want {
		t.Errorf("stdout %q, want %q", out, want)
	}
	if out := <-j.stderr; out != "to stderr\n" {
		t.Errorf("stderr %q", out)
	}
	for file, want := range map[string]string{"t/local/a": "local\n", "alloc/data/b": "alloc\n", "t/secrets/c": "secret\n"} {
		if text, err := os.ReadFile(filepath.Join(j.config.AllocDir, file)); string(text) != want {
			t.Errorf("%s: %q, %v", file, text, err)
		}
	}
	status, err := r.calls.InspectTask(t.Context(), &proto.InspectTaskRequest{TaskId: j.config.Id})
	if err != nil || status.Task.State != proto.TaskState_EXITED || status.Task.Result.ExitCode != 3 || status.Driver.Attributes["sandbox"] != "plain" || status.Driver.Attributes["engine"] != "native" {
		t.Errorf("%v, %v", status, err)
	}
	if _, err := r.calls.DestroyTask(t.Context(), &proto.DestroyTaskRequest{TaskId: j.config.Id}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.calls.WaitTask(t.Context(), &proto.WaitTaskRequest{TaskId: j.config.Id}); err == nil || !strings.Contains(err.Error(), "task not found for given id") {
		t.Errorf("of a task that was destroyed: %v", err)
	}
	r.goneExecutor(j)
}

// goneExecutor waits until nothing is left of a task's executor.
func (r *rig) goneExecutor(j *job) {
	r.Helper()
	h := j.decoded()
	r.until("the executor ends", func() bool { return proc.Stat(h.PID, proc.StatStart) != h.Started })
	if _, err := os.Stat(h.Dir); !errors.Is(err, os.ErrNotExist) {
		r.Errorf("%s is left: %v", h.Dir, err)
	}
}

// What cannot be started is told exactly, and leaves nothing.
func TestRefusals(t *testing.T) {
	r := newRig(t)
	for want, values := range map[string]map[string]cty.Value{
		`config.sandbox: this node lets jobs use plain, online, brief, not "secret"`: in("secret", script("true")),
		`"no-such-program": command not found`:                                       {"command": cty.StringVal("no-such-program")},
		"config.command: give either":                                                {},
	} {
		j := r.task(values)
		err := j.tryStart()
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	j := r.task(script("true"))
	j.closeReader()
	if err := os.Remove(j.config.StdoutPath); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(r.dir+"/sandboxes.hcl", j.config.StdoutPath); err != nil {
		t.Fatal(err)
	}
	if err := j.tryStart(); err == nil || !strings.Contains(err.Error(), "stdout.fifo") {
		t.Errorf("a symlink in the place of a log: %v", err)
	}
	j = r.task(script("true"))
	j.config.MsgpackDriverConfig = []byte("no config")
	if err := j.tryStart(); err == nil || !strings.Contains(err.Error(), "config: ") {
		t.Errorf("a malformed config: %v", err)
	}
	if os.Geteuid() != 0 {
		if left, err := os.ReadDir(r.dir + "/run/nomad-driver-sbxhost"); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}

func TestStop(t *testing.T) {
	r := newRig(t)
	j := r.task(script(`trap 'echo bye; exit 4' INT; : >ready; while :; do sleep 0.05; done`)).start()
	j.untilFile("ready")
	if _, err := r.calls.DestroyTask(t.Context(), &proto.DestroyTaskRequest{TaskId: j.config.Id}); err == nil {
		t.Error("a task that runs was destroyed without force")
	}
	j.stop(20 * time.Second)
	if got := j.wait(); got.Result.ExitCode != 4 || got.Err != "" {
		t.Errorf("%v", got)
	}
	if out := <-j.stdout; out != "bye\n" {
		t.Errorf("stdout %q", out)
	}
	j = r.task(script(`trap '' INT; : >ready; sleep 600 & wait; wait`)).start()
	j.untilFile("ready")
	j.stop(50 * time.Millisecond)
	if got := j.wait(); got.Result.ExitCode != 137 || got.Result.Signal != 9 || got.Err != "" {
		t.Errorf("it does not obey: %v", got)
	}
}

func TestTimeout(t *testing.T) {
	r := newRig(t)
	j := r.task(in("brief", script(`sleep 600`))).start()
	if got := j.wait(); got.Err != "limits.timeout: the time of the task is over" || got.Result.ExitCode == 0 {
		t.Errorf("longer than its sandbox lets it: %v", got)
	}
}

func TestSignal(t *testing.T) {
	r := newRig(t)
	j := r.task(script(`trap 'exit 5' USR1; : >ready; while :; do sleep 0.05; done`)).start()
	j.untilFile("ready")
	if _, err := r.calls.SignalTask(t.Context(), &proto.SignalTaskRequest{TaskId: j.config.Id, Signal: "SIGNONE"}); err == nil || !strings.Contains(err.Error(), `"SIGNONE"`) {
		t.Errorf("no such signal: %v", err)
	}
	if _, err := r.calls.SignalTask(t.Context(), &proto.SignalTaskRequest{TaskId: j.config.Id, Signal: "SIGUSR1"}); err != nil {
		t.Fatal(err)
	}
	if got := j.wait(); got.Result.ExitCode != 5 {
		t.Errorf("%v", got)
	}
}

const untilStopped = `: >ready; while ! test -e stop; do sleep 0.05; done; exit 6`

func (j *job) release() {
	j.Helper()
	if err := os.WriteFile(j.local("stop"), nil, 0o644); err != nil {
		j.Fatal(err)
	}
}

func TestExec(t *testing.T) {
	r := newRig(t)
	j := r.task(script("echo shared >/tmp/shared; " + untilStopped)).start()
	j.untilFile("ready")
	got, err := r.calls.ExecTask(t.Context(), &proto.ExecTaskRequest{TaskId: j.config.Id, Command: []string{"sh", "-c", "cat /tmp/shared; echo $NOMAD_TASK_DIR >&2; exit 9"}, Timeout: durationpb.New(time.Minute)})
	if err != nil || string(got.Stdout) != "shared\n" || string(got.Stderr) != "/local\n" || got.Result.ExitCode != 9 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := r.calls.ExecTask(t.Context(), &proto.ExecTaskRequest{TaskId: j.config.Id, Command: []string{"sleep", "600"}, Timeout: durationpb.New(200 * time.Millisecond)}); err == nil || !strings.Contains(err.Error(), "limits.timeout") && !strings.Contains(err.Error(), "timed out before the command ran") {
		t.Errorf("longer than it may: %v", err)
	}
	if _, err := r.calls.ExecTask(t.Context(), &proto.ExecTaskRequest{TaskId: j.config.Id, Command: []string{"no-such-program"}}); err == nil || !strings.Contains(err.Error(), "command not found") {
		t.Errorf("no such program: %v", err)
	}
}

// stream runs a command as nomad alloc exec does: it types, and gives all that comes back.
func (j *job) stream(tty bool, typed []*proto.ExecTaskStreamingRequest, argv ...string) (stdout, stderr string, result *proto.ExitResult, err error) {
	stream, err := j.calls.ExecTaskStreaming(j.Context())
	if err != nil {
		return "", "", nil, err
	}
	first := &proto.ExecTaskStreamingRequest{Setup: &proto.ExecTaskStreamingRequest_Setup{TaskId: j.config.Id, Command: argv, Tty: tty}}
	for _, m := range append([]*proto.ExecTaskStreamingRequest{first}, typed...) {
		if err := stream.Send(m); err != nil {
			return "", "", nil, err
		}
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stdout, stderr, result, nil
		} else if err != nil {
			return stdout, stderr, result, err
		}
		stdout += string(m.GetStdout().GetData())
		stderr += string(m.GetStderr().GetData())
		if m.Exited {
			result = m.Result
		}
	}
}

func typing(text string) *proto.ExecTaskStreamingRequest {
	return &proto.ExecTaskStreamingRequest{Stdin: &proto.ExecTaskStreamingIOOperation{Data: []byte(text)}}
}

func TestExecStreaming(t *testing.T) {
	r := newRig(t)
	j := r.task(script(untilStopped)).start()
	end := &proto.ExecTaskStreamingRequest{Stdin: &proto.ExecTaskStreamingIOOperation{Close: true}}
	large := strings.Repeat("0123456789abcde\n", 20000)
	out, errs, result, err := j.stream(false, []*proto.ExecTaskStreamingRequest{typing(large[:100000]), {}, typing(large[100000:]), end}, "sh", "-c", "cat; echo no terminal >&2; exit 7")
	if err != nil || out != large || errs != "no terminal\n" || result.GetExitCode() != 7 {
		t.Errorf("%d bytes, %q, %v, %v", len(out), errs, result, err)
	}
	size := &proto.ExecTaskStreamingRequest{TtySize: &proto.ExecTaskStreamingRequest_TerminalSize{Height: 33, Width: 99}}
	out, errs, result, err = j.stream(true, []*proto.ExecTaskStreamingRequest{size, typing("until [ \"$(stty size)\" = '33 99' ]; do sleep 0.05; done; tty; exit 8\n")}, "sh")
	if err != nil || !strings.Contains(out, "/dev/") || errs != "" || result.GetExitCode() != 8 {
		t.Errorf("a terminal: %q, %q, %v, %v", out, errs, result, err)
	}
	if _, _, _, err = j.stream(false, nil, "no-such-program"); err == nil || !strings.Contains(err.Error(), "command not found") {
		t.Errorf("no such program: %v", err)
	}
	// Whoever looks away ends the command, which holds a pipe open until it is dead.
	alive := j.local("alive")
	if err := errors.Join(unix.Mkfifo(alive, 0o600), os.Chmod(alive, 0o666)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := r.calls.ExecTaskStreaming(ctx)
	if err == nil {
		err = stream.Send(&proto.ExecTaskStreamingRequest{Setup: &proto.ExecTaskStreamingRequest_Setup{TaskId: j.config.Id, Command: []string{"sh", "-c", "exec 9>alive; trap '' HUP INT TERM; while :; do sleep 0.05; done"}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := os.Open(alive) // once the command has it
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	cancel()
	pipe.SetReadDeadline(time.Now().Add(20 * time.Second))
	if rest, err := io.ReadAll(pipe); len(rest) > 0 || err != nil {
		t.Errorf("the command lives: %q, %v", rest, err)
	}
}

func TestStats(t *testing.T) {
	r := newRig(t)
	j := r.task(script(`: >ready; while ! test -e stop; do :; done`)).start()
	j.untilFile("ready")
	stream, err := r.calls.TaskStats(t.Context(), &proto.TaskStatsRequest{TaskId: j.config.Id, CollectionInterval: durationpb.New(100 * time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	r.until("the task is busy", func() bool {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		u := m.Stats.AggResourceUsage
		return m.Stats.Id == j.config.Id && u.Cpu.Percent > 10 && u.Memory.Rss > 100<<10
	})
	j.release()
	j.wait()
	for err == nil { // it ends with the task
		_, err = stream.Recv()
	}
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func TestEvents(t *testing.T) {
	r := newRig(t)
	stream, err := r.calls.TaskEvents(t.Context(), &proto.TaskEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	j := r.task(script("cat /var/lib/dpkg/status")).start()
	m, err := stream.Recv()
	if err != nil || m.TaskId != j.config.Id || m.AllocId != j.config.AllocId || m.TaskName != "t" || !strings.Contains(m.Message, "/var/lib/dpkg/status") {
		t.Errorf("%v, %v", m, err)
	}
}

// A task goes on without its driver, and the next one finds it.
func TestRecover(t *testing.T) {
	r := newRig(t)
	j := r.task(script(untilStopped)).start()
	brief := r.task(script(`: >ready; while ! test -e stop; do sleep 0.05; done; exit 6`)).start()
	j.untilFile("ready")
	brief.untilFile("ready")
	again := func() {
		t.Helper()
		if err := unix.Kill(r.plug.ReattachConfig().Pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		r.until("the driver is gone", r.plug.Exited)
	}
	again()
	brief.release() // it ends while there is no driver
	brief.until("it has ended", func() bool { out := <-brief.stdout; return out == "" })
	r.startDriver()
	for range 2 { // what is known is no error
		for _, h := range []*proto.TaskHandle{j.handle, brief.handle} {
			if _, err := r.calls.RecoverTask(t.Context(), &proto.RecoverTaskRequest{TaskId: h.Config.Id, Handle: h}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := brief.wait(); got.Result.ExitCode != 6 {
		t.Errorf("ended meanwhile: %v", got)
	}
	if status, err := r.calls.InspectTask(t.Context(), &proto.InspectTaskRequest{TaskId: j.config.Id}); err != nil || status.Task.State != proto.TaskState_RUNNING {
		t.Errorf("%v, %v", status, err)
	}
	j.release()
	if got := j.wait(); got.Result.ExitCode != 6 || got.Err != "" {
		t.Errorf("%v", got)
	}
	if _, err := r.calls.DestroyTask(t.Context(), &proto.DestroyTaskRequest{TaskId: j.config.Id}); err != nil {
		t.Error(err)
	}
	r.goneExecutor(j)

	// An executor that was killed takes its task along, now and for the next driver.
	j = r.task(script(untilStopped)).start()
	j.untilFile("ready")
	if err := unix.Kill(j.decoded().PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := j.wait(); got.Err != "the task's executor has ended: it was killed" || got.Result == nil {
		t.Errorf("%v", got)
	}
	if out := <-j.stdout; out != "" { // the end of its last writer
		t.Errorf("%q", out)
	}
	again()
	r.startDriver()
	if _, err := r.calls.RecoverTask(t.Context(), &proto.RecoverTaskRequest{Handle: j.handle}); err == nil || !strings.Contains(err.Error(), "executor has ended") {
		t.Errorf("recovered: %v", err)
	}
	r.goneExecutor(j)
}

func (j *job) decoded() (h handle) {
	j.Helper()
	if err := json.Unmarshal(j.handle.DriverState, &h); err != nil {
		j.Fatal(err)
	}
	return h
}

// An executor that hangs does not keep its driver from ending the task.
func TestStoppedExecutor(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes the driver's patience")
	}
	r := newRig(t)
	j := r.task(script(untilStopped)).start()
	j.untilFile("ready")
	if err := unix.Kill(j.decoded().PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := r.calls.DestroyTask(t.Context(), &proto.DestroyTaskRequest{TaskId: j.config.Id, Force: true}); err != nil {
		t.Error(err)
	}
	r.goneExecutor(j)
	if out := <-j.stdout; out != "" {
		t.Errorf("%q", out)
	}
}

// Who reads the log may end before the task, and come again.
func TestLogReaderEnds(t *testing.T) {
	r := newRig(t)
	j := r.task(script(`echo one; : >ready; while ! test -e stop; do sleep 0.05; done; echo two`))
	j.closeReader()
	j.start()
	j.untilFile("ready")
	next := make(chan string, 1)
	go func() {
		text, _ := os.ReadFile(j.config.StdoutPath)
		next <- string(text)
	}()
	j.release()
	if got := j.wait(); got.Result.ExitCode != 0 {
		t.Errorf("%v", got)
	}
	if out := <-next; out != "one\ntwo\n" {
		t.Errorf("%q", out)
	}
}

// closeReader has the log's reader end before the task starts.
func (j *job) closeReader() {
	j.Helper()
	file, err := os.OpenFile(j.config.StdoutPath, os.O_WRONLY, 0)
	if err != nil {
		j.Fatal(err)
	}
	file.Close()
	<-j.stdout
}

// Nomad's ports lead into a sandbox without the node's network where the operator says so.
func TestPublish(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "python3") {
			t.Fatal(err)
		}
		t.Skip("no python3 to listen inside")
	}
	r := newRig(t)
	port, err := net.Listen("tcp", "127.0.0.1:0") // a free one
	if err != nil {
		t.Fatal(err)
	}
	port.Close()
	j := r.task(map[string]cty.Value{"command": cty.StringVal("python3"), "args": words("-c",
		"import socket; s = socket.create_server(('127.0.0.1', 8080)); c = s.accept()[0]; c.sendall(b'from inside'); c.close()")})
	j.config.Resources = &proto.Resources{Ports: []*proto.PortMapping{{Label: "web", HostIp: "127.0.0.1", Value: int32(port.Addr().(*net.TCPAddr).Port), To: 8080}}}
	if err := j.tryStart(); err == nil || !strings.Contains(err.Error(), `network.port "web"`) {
		t.Errorf("a port that the operator does not allow: %v", err)
	}
	if _, err := r.base.SetConfig(t.Context(), &baseproto.SetConfigRequest{MsgpackConfig: encode(t, agentAttrs,
		map[string]cty.Value{"definitions": cty.StringVal(r.dir + "/sandboxes.hcl"), "sandboxes": words("plain"), "publish": cty.True})}); err != nil {
		t.Fatal(err)
	}
	j.start()
	r.until("it answers", func() bool {
		conn, err := net.Dial("tcp", port.Addr().String())
		if err != nil {
			return false
		}
		defer conn.Close()
		text, _ := io.ReadAll(conn)
		return string(text) == "from inside"
	})
}

// A task in a group's network namespace has that one, if its sandbox has the host's network.
func TestGroupNetwork(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can join a namespace of others")
	}
	r := newRig(t)
	path, name := make(chan string), make(chan string, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
		}
		ns := fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
		link, _ := os.Readlink(ns)
		name <- link
		path <- ns
		<-t.Context().Done()
	}()
	j := r.task(in("online", script("readlink /proc/self/ns/net")))
	j.config.NetworkIsolationSpec = &proto.NetworkIsolationSpec{Mode: proto.NetworkIsolationSpec_GROUP, Path: <-path}
	j.start()
	if out, want := <-j.stdout, <-name+"\n"; out != want {
		t.Errorf("in %q, want %q", out, want)
	}
}

// A task may use as much memory as the job reserves.
func TestMemory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("what a user may limit depends on the login")
	}
	r := newRig(t)
	j := r.task(script(`head -c 200M /dev/zero | tail >/dev/null`))
	j.config.Resources = &proto.Resources{LinuxResources: &proto.LinuxResources{MemoryLimitBytes: 32 << 20}}
	j.start()
	if got := j.wait(); got.Result.ExitCode != 137 || !got.Result.OomKilled || got.Err != "" {
		t.Errorf("200 MB in 32: %v", got)
	}
}

func TestManyAtOnce(t *testing.T) {
	r := newRig(t)
	n := 50
	if testing.Short() {
		n = 12
	}
	var all sync.WaitGroup
	for i := range n {
		j := r.task(script("echo $1", fmt.Sprint(i)))
		all.Go(func() {
			if err := j.tryStart(); err != nil {
				t.Error(err)
				return
			}
			if got, err := r.calls.WaitTask(t.Context(), &proto.WaitTaskRequest{TaskId: j.config.Id}); err != nil || got.Result.ExitCode != 0 || got.Err != "" {
				t.Errorf("%v, %v", got, err)
			}
			if out := <-j.stdout; out != fmt.Sprintln(i) {
				t.Errorf("%d: %q", i, out)
			}
		})
	}
	all.Wait()
}
