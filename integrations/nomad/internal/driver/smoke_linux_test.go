package driver

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	baseproto "github.com/hashicorp/nomad/plugins/base/proto"
	"github.com/hashicorp/nomad/plugins/drivers/proto"
	"github.com/zclconf/go-cty/cty"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The tests here are the agent's side: they start the driver as an agent does, and speak
// Nomad's protocol to it.

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
	j.stop(2 * time.Minute)
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
	if _, err := r.base.SetConfig(t.Context(), &baseproto.SetConfigRequest{MsgpackConfig: encode(t, agentConfig{},
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
