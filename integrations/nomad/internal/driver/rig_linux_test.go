package driver

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	baseproto "github.com/hashicorp/nomad/plugins/base/proto"
	"github.com/hashicorp/nomad/plugins/drivers/proto"
	"github.com/zclconf/go-cty/cty"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sbxhost/sbxhost/internal/proc"
	"github.com/sbxhost/sbxhost/internal/testing/programs"
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
  limits { timeout = "10s" }
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
	dir, err := programs.Dir("integrations/nomad/nomad-driver-sbxhost", "cmd/sbxhost-init")
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
		MsgpackConfig: encode(r, agentConfig{}, map[string]cty.Value{"definitions": cty.StringVal(r.dir + "/sandboxes.hcl"), "sandboxes": words(sandboxes...)})})
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
	j := &job{rig: r, config: &proto.TaskConfig{Id: id, Name: "t", AllocId: id, AllocDir: alloc, MsgpackDriverConfig: encode(r, jobConfig{}, values),
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

// until waits for something that another process does, and of which it tells nobody.
func (r *rig) until(what string, done func() bool) {
	r.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("still not: %s", what)
		}
	}
}

func (j *job) untilFile(name string) {
	j.Helper()
	j.until(name+" is there", func() bool { _, err := os.Stat(j.local(name)); return err == nil })
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

const untilStopped = `: >ready; while ! test -e stop; do sleep 0.05; done; exit 6`

func (j *job) release() {
	j.Helper()
	if err := os.WriteFile(j.local("stop"), nil, 0o644); err != nil {
		j.Fatal(err)
	}
}
