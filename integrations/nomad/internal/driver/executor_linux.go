package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers/proto"
	structsproto "github.com/hashicorp/nomad/plugins/shared/structs/proto"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/source"
	"github.com/sbxhost/sbxhost/plugins/bwrap"
	"github.com/sbxhost/sbxhost/plugins/native"
	"github.com/sbxhost/sbxhost/shared"
)

const (
	executorArg = "executor"
	// listenerFD is the executor's socket, which already listens.
	listenerFD = 3
	// maxPendingEvents is how many events wait for a driver.
	maxPendingEvents = 128
	// statusBroken is the status of a task whose own is unknown, as in sbxhost.
	statusBroken = 125
)

// executor has one task.
type executor struct {
	proto.UnimplementedDriverServer
	life   context.Context // the executor's
	end    context.CancelFunc
	events chan *proto.DriverTaskEvent
	ended  chan struct{} // closed after the task has ended
	// oomKilled says that the kernel has killed a process of the task because of its memory.
	oomKilled atomic.Bool

	mu    sync.Mutex // guards the fields below, which keep the values of StartTask
	agent agentConfig
	task  *proto.TaskConfig
	plan  plan
	host  *host.Host
	cmd   *host.Cmd
	logs  []io.Closer
	start time.Time // zero until the task runs

	result *proto.WaitTaskResponse // valid after ended, as is at
	at     time.Time
}

// serveExecutor serves one task until it is destroyed.
func serveExecutor() error {
	file := os.NewFile(listenerFD, "listener")
	listener, err := net.FileListener(file)
	if err != nil {
		return fmt.Errorf("the driver starts executors itself: %w", err)
	}
	file.Close()
	life, end := context.WithCancel(context.Background())
	e := &executor{life: life, end: end, ended: make(chan struct{}), events: make(chan *proto.DriverTaskEvent, maxPendingEvents)}
	server := grpc.NewServer()
	proto.RegisterDriverServer(server, e)
	go func() {
		<-life.Done()
		server.GracefulStop() // the answer to DestroyTask must still be sent
	}()
	return server.Serve(listener)
}

func (e *executor) StartTask(ctx context.Context, req *proto.StartTaskRequest) (*proto.StartTaskResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.task != nil {
		return nil, errors.New("this executor has a task")
	}
	e.task = req.Task
	config := strings.Join(metadata.ValueFromIncomingContext(ctx, configKey), "")
	var err error
	if e.agent, err = decodeAgent([]byte(config)); err != nil {
		return nil, err
	}
	if err := e.run(ctx); err != nil {
		e.closeLogs()
		return nil, startError(err)
	}
	return &proto.StartTaskResponse{Handle: &proto.TaskHandle{Version: handleVersion, Config: e.task, State: proto.TaskState_RUNNING}}, nil
}

// running returns an error until the task runs. After that, the caller can read the fields of
// StartTask.
func (e *executor) running() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.start.IsZero() {
		return errors.New("this executor runs no task")
	}
	return nil
}

// run starts the task.
func (e *executor) run(ctx context.Context) error {
	file, options, err := load(e.agent)
	if err != nil {
		return err
	}
	if e.plan, err = translate(e.agent, options.Sandboxes, runtime.NumCPU(), e.task); err != nil {
		return err
	}
	if e.plan.Definition.Config, err = engineOptions(ctx, file, options, e.plan.Sandbox); err != nil {
		return err
	}
	if options.Workspace.Root != "" {
		return fmt.Errorf("workspace.root: the workspace of a task is its own directory: leave it out of %s", e.agent.Definitions)
	}
	options.Sandboxes = map[string]host.Definition{e.plan.Sandbox: e.plan.Definition}
	options.DefaultSandbox = e.plan.Sandbox
	options.Workspace.Root, options.Dir = e.plan.Workspace, e.plan.Workspace
	options.Workspace.Temp = true // commands of `nomad alloc exec` find the task's files there
	if e.host, err = host.New(context.Background(), options); err != nil {
		return err
	}
	e.cmd = e.command(context.Background(), e.plan.Args...)
	e.cmd.Script = e.plan.Script
	stdout, err := e.openLog(e.task.StdoutPath)
	if err != nil {
		return err
	}
	stderr, err := e.openLog(e.task.StderrPath)
	if err != nil {
		return err
	}
	e.cmd.Stdout, e.cmd.Stderr = stdout, stderr
	e.cmd.Events = func(event shared.Event) {
		switch event.Kind {
		case shared.EventProgress, shared.EventDegraded:
			e.emitEvent(event.Message)
		case shared.EventViolation: // the report has it among its denials
			if event.Details["limit"] == "memory" {
				e.oomKilled.Store(true)
			}
		}
	}
	if err := e.cmd.Start(); err != nil {
		return err
	}
	e.start = time.Now()
	go e.wait()
	return nil
}

// load reads the definitions, and keeps those that jobs may use.
func load(agent agentConfig) (*config.File, host.Options, error) {
	file, diags := config.Load(agent.Definitions, config.InputFor(os.LookupEnv, filepath.Dir(agent.Definitions)))
	if diags.HasErrors() {
		return nil, host.Options{}, diagnosed(diags)
	}
	options, diags := file.Options()
	if diags.HasErrors() {
		return nil, host.Options{}, diagnosed(diags)
	}
	for _, def := range options.Sandboxes { // a task's host has one definition, and runs no program that those of others write
		options.OtherBinds = append(options.OtherBinds, def.BindPaths...)
	}
	maps.DeleteFunc(options.Sandboxes, func(name string, _ host.Definition) bool { return !slices.Contains(agent.Sandboxes, name) })
	options.DefaultSandbox = ""
	options.Inject = map[string]shared.Engine{"native": native.New(), "bwrap": bwrap.New()}
	options.Protected = append(options.Protected, agent.Definitions)
	options.OneShot = true
	return file, options, nil
}

// engineOptions returns the options of the sandbox's config block, which its engine declares.
func engineOptions(ctx context.Context, file *config.File, options host.Options, sandbox string) (json.RawMessage, error) {
	err := file.AddEngineOptions(ctx, &options, sandbox)
	if invalid, ok := errors.AsType[config.Diagnostics](err); ok {
		err = diagnosed(invalid)
	}
	return options.Sandboxes[sandbox].Config, err
}

// diagnosed returns an error with the errors of a file, and their lines.
func diagnosed(diags config.Diagnostics) error {
	var text bytes.Buffer
	source.Write(&text, diags, false, 0)
	return errors.New(strings.TrimSpace(text.String()))
}

// command makes a command in the task's sandbox.
func (e *executor) command(ctx context.Context, argv ...string) *host.Cmd {
	cmd := e.host.Command(ctx, e.plan.Sandbox, argv...)
	cmd.Env = e.plan.Env
	return cmd
}

// openLog opens one of the agent's log fifos. The reader may end before the task and come again:
// the executor keeps the fifo open, so that a write meanwhile does not end the task.
func (e *executor) openLog(path string) (file *os.File, err error) {
	if path == "" {
		return nil, nil
	}
	for _, flag := range []int{unix.O_RDONLY | unix.O_NONBLOCK, unix.O_WRONLY} {
		fd, err := hostpath.Openat(unix.AT_FDCWD, path, flag|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, hostpath.OpenError(path, err)
		}
		// Not os.OpenFile, which would make the command's end non-blocking.
		file = os.NewFile(uintptr(fd), path)
		e.logs = append(e.logs, file)
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return nil, err
		}
		if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFIFO && kind != unix.S_IFCHR {
			return nil, fmt.Errorf("logs: %s is not the agent's fifo", hostpath.Quote(path))
		}
	}
	return file, nil // the last
}

func (e *executor) closeLogs() {
	for _, log := range e.logs {
		log.Close()
	}
}

// wait waits for the task's end.
func (e *executor) wait() {
	err := e.cmd.Wait()
	e.closeLogs()
	if report := e.cmd.Report(); err != nil {
		for _, d := range report.Denials {
			e.emitEvent(fmt.Sprintf("sandbox %s: %s", e.plan.Sandbox, d.Reason))
		}
	}
	result := &proto.WaitTaskResponse{}
	failed := err != nil
	result.Result, err = exitResult(err)
	result.Result.OomKilled = failed && e.oomKilled.Load()
	if err != nil {
		result.Err = err.Error()
	}
	e.result, e.at = result, time.Now()
	close(e.ended)
}

// exitResult says how a command ended, with the error if it did not end by itself.
func exitResult(err error) (*proto.ExitResult, error) {
	exit, ok := errors.AsType[*host.ExitError](err)
	switch {
	case err == nil:
		return &proto.ExitResult{}, nil
	case !ok:
		return &proto.ExitResult{ExitCode: statusBroken}, err
	case exit.TimedOut:
		err = errors.New("limits.timeout: the time of the task is over")
	default:
		err = nil
	}
	return &proto.ExitResult{ExitCode: int32(exit.Shell()), Signal: int32(exit.Signal)}, err
}

// startError says whether another try may succeed.
func startError(err error) error {
	_, lost := errors.AsType[*host.EngineError](err)
	again := lost || errors.Is(err, host.ErrTimedOut)
	st, detailed := status.New(codes.FailedPrecondition, err.Error()).WithDetails(&structsproto.RecoverableError{Recoverable: again})
	if detailed != nil {
		return err
	}
	return st.Err()
}

// emitEvent makes the agent show a message among the task's events. It drops the message if too
// many wait.
func (e *executor) emitEvent(message string) {
	select {
	case e.events <- &proto.DriverTaskEvent{TaskId: e.task.Id, AllocId: e.task.AllocId, TaskName: e.task.Name, Timestamp: timestamppb.Now(), Message: message}:
	default:
	}
}

func (e *executor) TaskEvents(_ *proto.TaskEventsRequest, stream proto.Driver_TaskEventsServer) error {
	return sendEvents(stream, e.events, e.life.Done())
}

func (e *executor) WaitTask(ctx context.Context, _ *proto.WaitTaskRequest) (*proto.WaitTaskResponse, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-e.ended:
		return e.result, nil
	}
}

func (e *executor) InspectTask(context.Context, *proto.InspectTaskRequest) (*proto.InspectTaskResponse, error) {
	if err := e.running(); err != nil {
		return nil, err
	}
	s := &proto.TaskStatus{Id: e.task.Id, Name: e.task.Name, State: proto.TaskState_RUNNING, StartedAt: timestamppb.New(e.start)}
	select {
	case <-e.ended:
		s.State, s.CompletedAt, s.Result = proto.TaskState_EXITED, timestamppb.New(e.at), e.result.Result
	default:
	}
	return &proto.InspectTaskResponse{Task: s, Driver: &proto.TaskDriverStatus{Attributes: map[string]string{
		"sandbox": e.plan.Sandbox, "engine": e.cmd.Report().Engine, "decision": e.cmd.Report().Decision, "executor": fmt.Sprint(os.Getpid())}}}, nil
}

// StopTask ends the task by the signal, and later by a kill.
func (e *executor) StopTask(ctx context.Context, req *proto.StopTaskRequest) (*proto.StopTaskResponse, error) {
	sig, err := e.signal(req.Signal)
	if err != nil {
		return nil, err
	}
	if err := e.cmd.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		e.emitEvent(fmt.Sprintf("signal %v: %v", sig, err))
	}
	select {
	case <-e.ended:
		return &proto.StopTaskResponse{}, nil
	case <-time.After(req.GetTimeout().AsDuration()):
	case <-ctx.Done():
	}
	return &proto.StopTaskResponse{}, e.kill()
}

// kill kills the command, and waits for its end.
func (e *executor) kill() error {
	if err := e.cmd.Signal(unix.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-e.ended // the host gives an engine that hangs a few seconds
	return nil
}

func (e *executor) SignalTask(_ context.Context, req *proto.SignalTaskRequest) (*proto.SignalTaskResponse, error) {
	sig, err := e.signal(req.Signal)
	if err == nil {
		err = e.cmd.Signal(sig)
	}
	return &proto.SignalTaskResponse{}, err
}

// signal returns the signal of a name, for a task that runs. No name means Nomad's documented default.
func (e *executor) signal(name string) (unix.Signal, error) {
	if err := e.running(); err != nil {
		return 0, err
	}
	if name == "" {
		return unix.SIGINT, nil
	}
	if sig := unix.SignalNum(strings.ToUpper(name)); sig != 0 {
		return sig, nil
	}
	return 0, fmt.Errorf("signal: %q is not the name of a signal, such as SIGHUP", name)
}

// DestroyTask ends the task and the executor, also one whose task did not start.
func (e *executor) DestroyTask(context.Context, *proto.DestroyTaskRequest) (*proto.DestroyTaskResponse, error) {
	if e.running() == nil {
		if err := e.kill(); err != nil {
			return nil, err
		}
	}
	defer e.end()
	if e.host == nil {
		return &proto.DestroyTaskResponse{}, nil
	}
	return &proto.DestroyTaskResponse{}, e.host.Close()
}
