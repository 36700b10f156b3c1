package driver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	baseproto "github.com/hashicorp/nomad/plugins/base/proto"
	"github.com/hashicorp/nomad/plugins/drivers/proto"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/proc"
)

const (
	handleVersion = 1
	// configKey has the plugin's configuration for an executor, as the agent sent it.
	configKey = "config-bin"
	// patience is how long an executor may take for a quick answer.
	patience = 10 * time.Second
)

// driver passes the agent's calls on to the tasks' executors.
type driver struct {
	proto.UnimplementedDriverServer
	events chan *proto.DriverTaskEvent

	mu     sync.Mutex
	config []byte // as the agent sent it; nil until it has configured the plugin
	agent  agentConfig
	tasks  map[string]*task
}

// A task says how to reach its executor.
type task struct {
	proto.DriverClient
	conn   *grpc.ClientConn
	handle handle
	ended  context.CancelFunc // stops the watch of the task
}

// A handle is what the agent keeps for the next driver.
type handle struct {
	Dir     string // of the executor, with its socket
	PID     int
	Started string // by the kernel's clock: process numbers are used again
}

func (h handle) socket() string { return filepath.Join(h.Dir, "socket") }

func (d *driver) PluginInfo(context.Context, *baseproto.PluginInfoRequest) (*baseproto.PluginInfoResponse, error) {
	return &baseproto.PluginInfoResponse{Type: baseproto.PluginType_DRIVER, PluginApiVersions: []string{apiVersion}, PluginVersion: version(), Name: pluginName}, nil
}

func (d *driver) ConfigSchema(context.Context, *baseproto.ConfigSchemaRequest) (*baseproto.ConfigSchemaResponse, error) {
	return &baseproto.ConfigSchemaResponse{Spec: schema(agentConfig{}, "definitions", "sandboxes")}, nil
}

func (d *driver) SetConfig(_ context.Context, req *baseproto.SetConfigRequest) (*baseproto.SetConfigResponse, error) {
	agent, err := decodeAgent(req.MsgpackConfig)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.config, d.agent = req.MsgpackConfig, agent
	return &baseproto.SetConfigResponse{}, nil
}

func (d *driver) TaskConfigSchema(context.Context, *proto.TaskConfigSchemaRequest) (*proto.TaskConfigSchemaResponse, error) {
	return &proto.TaskConfigSchemaResponse{Spec: schema(jobConfig{})}, nil
}

func (d *driver) Capabilities(context.Context, *proto.CapabilitiesRequest) (*proto.CapabilitiesResponse, error) {
	c := &proto.DriverCapabilities{SendSignals: true, Exec: true, FsIsolation: proto.DriverCapabilities_IMAGE,
		NetworkIsolationModes: []proto.NetworkIsolationSpec_NetworkIsolationMode{proto.NetworkIsolationSpec_HOST}}
	if os.Geteuid() == 0 { // only root can join a group's namespace
		c.NetworkIsolationModes = append(c.NetworkIsolationModes, proto.NetworkIsolationSpec_GROUP)
	}
	return &proto.CapabilitiesResponse{Capabilities: c}, nil
}

func (d *driver) StartTask(ctx context.Context, req *proto.StartTaskRequest) (*proto.StartTaskResponse, error) {
	d.mu.Lock()
	config := d.config
	_, known := d.tasks[req.Task.Id]
	d.mu.Unlock()
	switch {
	case config == nil:
		return nil, errors.New("the agent has not configured the plugin")
	case known:
		return nil, fmt.Errorf("task %s runs already", req.Task.Id)
	}
	t, err := startExecutor(req.Task)
	if err != nil {
		return nil, err
	}
	resp, err := t.StartTask(metadata.AppendToOutgoingContext(ctx, configKey, string(config)), req)
	if err == nil {
		resp.Handle.DriverState, err = json.Marshal(t.handle)
	}
	if err != nil {
		return nil, t.lost(err, t.destroy(context.WithoutCancel(ctx)))
	}
	d.add(req.Task.Id, t)
	return resp, nil
}

// startExecutor starts a task's executor. Its socket listens before it runs.
func startExecutor(config *proto.TaskConfig) (*task, error) {
	base, err := stateDir()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(config.Id))
	h := handle{Dir: filepath.Join(base, hex.EncodeToString(sum[:16]))}
	// A directory there belongs to a killed executor: the agent starts no task twice.
	if err := errors.Join(os.RemoveAll(h.Dir), os.Mkdir(h.Dir, 0o700)); err != nil {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: h.socket(), Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	defer listener.Close()
	socket, err := listener.File()
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	log, err := os.OpenFile(h.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	self, err := hostpath.Self()
	if err != nil {
		return nil, err
	}
	cmd := self.Command(context.Background(), executorArg)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Environ(), log, log, []*os.File{socket}
	// Separate it from the agent's terminal and process group, so that it survives their end.
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := startIn(config.GetNetworkIsolationSpec().GetPath(), cmd); err != nil {
		return nil, err
	}
	h.PID, h.Started = cmd.Process.Pid, proc.Stat(cmd.Process.Pid, proc.StatStart)
	go cmd.Wait()
	return dial(h)
}

func (h handle) log() string { return filepath.Join(h.Dir, "log") }

// stateDir is the directory of the executors' sockets. Who can write there can talk to the
// executors.
func stateDir() (string, error) {
	dir := "/run/nomad-driver-sbxhost"
	if os.Geteuid() != 0 {
		runtime := os.Getenv("XDG_RUNTIME_DIR")
		if runtime == "" {
			return "", errors.New("XDG_RUNTIME_DIR is not set: have the agent's environment name a directory that is its user's alone")
		}
		dir = filepath.Join(runtime, "nomad-driver-sbxhost")
	}
	return dir, hostpath.MakePrivate(dir, 0o700)
}

// startIn starts a program in the network namespace at a path, or in the present one without a
// path.
func startIn(netns string, cmd *exec.Cmd) error {
	if netns == "" {
		return cmd.Start()
	}
	fd, err := unix.Open(netns, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("network.mode: the group's namespace: %w", hostpath.OpenError(netns, err))
	}
	defer unix.Close(fd)
	proc.OnOwnThread(func() {
		if err = unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("network.mode: the group's namespace %s: %w", netns, err)
			return
		}
		err = cmd.Start()
	})
	return err
}

func dial(h handle) (*task, error) {
	conn, err := grpc.NewClient("unix:"+h.socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return &task{DriverClient: proto.NewDriverClient(conn), conn: conn, handle: h}, nil
}

// add registers a task, and listens for its events.
func (d *driver) add(id string, t *task) {
	ctx, cancel := context.WithCancel(context.Background())
	t.ended = cancel
	d.mu.Lock()
	d.tasks[id] = t
	d.mu.Unlock()
	go func() {
		stream, err := t.TaskEvents(ctx, &proto.TaskEventsRequest{})
		if err == nil {
			pass(stream.Recv, func(event *proto.DriverTaskEvent) error {
				select {
				case d.events <- event:
				case <-ctx.Done():
				}
				return nil
			})
		}
	}()
}

func (d *driver) get(id string) (*task, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t, ok := d.tasks[id]; ok {
		return t, nil
	}
	return nil, status.Errorf(codes.NotFound, "task not found for given id") // the agent looks for these words
}

// forward calls the executor of a request's task.
func forward[Request interface{ GetTaskId() string }, Answer any](ctx context.Context, d *driver, req Request,
	call func(*task, context.Context, Request, ...grpc.CallOption) (Answer, error)) (answer Answer, err error) {
	t, err := d.get(req.GetTaskId())
	if err == nil {
		answer, err = call(t, ctx, req)
	}
	return answer, err
}

func (d *driver) RecoverTask(ctx context.Context, req *proto.RecoverTaskRequest) (*proto.RecoverTaskResponse, error) {
	id := req.GetHandle().GetConfig().GetId()
	if _, err := d.get(id); err == nil {
		return &proto.RecoverTaskResponse{}, nil
	}
	if v := req.GetHandle().GetVersion(); v != handleVersion {
		return nil, fmt.Errorf("task %s: this driver does not know handles of version %d", id, v)
	}
	var h handle
	if err := json.Unmarshal(req.Handle.DriverState, &h); err != nil {
		return nil, err
	}
	t, err := dial(h)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := t.InspectTask(ctx, &proto.InspectTaskRequest{TaskId: id}); err != nil {
		return nil, t.lost(err, t.destroy(ctx))
	}
	d.add(id, t)
	return &proto.RecoverTaskResponse{}, nil
}

// lost adds the executor's last output to the error of a call.
func (t *task) lost(err error, log string) error {
	if status.Code(err) != codes.Unavailable {
		return err
	}
	if log == "" {
		log = "it was killed"
	}
	return fmt.Errorf("the task's executor has ended: %s", log)
}

func (d *driver) WaitTask(ctx context.Context, req *proto.WaitTaskRequest) (*proto.WaitTaskResponse, error) {
	t, err := d.get(req.TaskId)
	if err != nil {
		return nil, err
	}
	resp, err := t.WaitTask(ctx, req)
	if status.Code(err) == codes.Unavailable {
		return &proto.WaitTaskResponse{Result: &proto.ExitResult{ExitCode: statusBroken}, Err: t.lost(err, t.stderrTail()).Error()}, nil
	}
	return resp, err
}

func (d *driver) StopTask(ctx context.Context, req *proto.StopTaskRequest) (*proto.StopTaskResponse, error) {
	t, err := d.get(req.TaskId)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, req.GetTimeout().AsDuration()+patience)
	defer cancel()
	resp, err := t.StopTask(ctx, req)
	if err != nil && status.Code(err) != codes.Unknown { // the executor is gone, or hangs
		t.handle.kill()
		return &proto.StopTaskResponse{}, nil
	}
	return resp, err
}

func (d *driver) DestroyTask(ctx context.Context, req *proto.DestroyTaskRequest) (*proto.DestroyTaskResponse, error) {
	t, err := d.get(req.TaskId)
	if err != nil {
		return nil, err
	}
	if !req.Force {
		resp, err := t.InspectTask(ctx, &proto.InspectTaskRequest{TaskId: req.TaskId})
		if err == nil && resp.Task.State == proto.TaskState_RUNNING {
			return nil, errors.New("the task runs: stop it first")
		}
	}
	d.mu.Lock()
	delete(d.tasks, req.TaskId)
	d.mu.Unlock()
	t.destroy(ctx)
	return &proto.DestroyTaskResponse{}, nil
}

// destroy ends the executor and its task, and removes their files. It returns the executor's
// output.
func (t *task) destroy(ctx context.Context) (log string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := t.DestroyTask(ctx, &proto.DestroyTaskRequest{}); err != nil {
		t.handle.kill()
	}
	if t.ended != nil {
		t.ended()
	}
	t.conn.Close()
	log = t.stderrTail()
	os.RemoveAll(t.handle.Dir)
	return log
}

// stderrTail is the end of an executor's output.
func (t *task) stderrTail() string {
	text, _ := os.ReadFile(t.handle.log())
	return strings.TrimSpace(string(text[max(0, len(text)-2000):]))
}

// kill kills an executor that does not answer. Its sandbox dies with it.
func (h handle) kill() {
	proc.Kill(h.PID, func(pid int) bool { return proc.Stat(pid, proc.StatStart) == h.Started }, patience)
}

func (d *driver) InspectTask(ctx context.Context, req *proto.InspectTaskRequest) (*proto.InspectTaskResponse, error) {
	return forward(ctx, d, req, (*task).InspectTask)
}

func (d *driver) SignalTask(ctx context.Context, req *proto.SignalTaskRequest) (*proto.SignalTaskResponse, error) {
	return forward(ctx, d, req, (*task).SignalTask)
}

func (d *driver) ExecTask(ctx context.Context, req *proto.ExecTaskRequest) (*proto.ExecTaskResponse, error) {
	return forward(ctx, d, req, (*task).ExecTask)
}

func (d *driver) TaskStats(req *proto.TaskStatsRequest, to proto.Driver_TaskStatsServer) error {
	t, err := d.get(req.TaskId)
	if err != nil {
		return err
	}
	from, err := t.TaskStats(to.Context(), req)
	if err != nil {
		return err
	}
	return pass(from.Recv, to.Send)
}

func (d *driver) ExecTaskStreaming(to proto.Driver_ExecTaskStreamingServer) error {
	first, err := to.Recv()
	if err != nil {
		return err
	}
	t, err := d.get(first.GetSetup().GetTaskId())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(to.Context())
	defer cancel()
	from, err := t.ExecTaskStreaming(ctx)
	if err != nil {
		return err
	}
	if err := from.Send(first); err != nil {
		return err
	}
	go func() {
		if pass(to.Recv, from.Send) == nil {
			from.CloseSend()
		}
	}()
	return pass(from.Recv, to.Send)
}

// pass passes messages on to their end.
func pass[M any](receive func() (M, error), send func(M) error) error {
	for {
		m, err := receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = send(m)
		}
		if err != nil {
			return err
		}
	}
}

func (d *driver) TaskEvents(_ *proto.TaskEventsRequest, stream proto.Driver_TaskEventsServer) error {
	return sendEvents(stream, d.events, nil)
}

// sendEvents sends events until the stream or the life of their source ends.
func sendEvents(stream proto.Driver_TaskEventsServer, events <-chan *proto.DriverTaskEvent, ended <-chan struct{}) error {
	for {
		select {
		case <-ended:
			return nil
		case <-stream.Context().Done():
			return nil
		case event := <-events:
			if err := stream.Send(event); err != nil {
				return err
			}
		}
	}
}
