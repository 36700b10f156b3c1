package driver

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers/proto"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/durationpb"
)

// The tests here are the agent's side: they start the driver as an agent does, and speak
// Nomad's protocol to it.

func TestExec(t *testing.T) {
	r := newRig(t)
	j := r.task(script("echo shared >/tmp/shared; " + untilStopped)).start()
	j.untilFile("ready")
	got, err := r.calls.ExecTask(t.Context(), &proto.ExecTaskRequest{TaskId: j.config.Id, Command: []string{"sh", "-c", "cat /tmp/shared; echo $NOMAD_TASK_DIR >&2; exit 9"}, Timeout: durationpb.New(time.Minute)})
	if err != nil || string(got.Stdout) != "shared\n" || string(got.Stderr) != "/local\n" || got.Result.ExitCode != 9 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := r.calls.ExecTask(t.Context(), &proto.ExecTaskRequest{TaskId: j.config.Id, Command: []string{"sleep", "600"}, Timeout: durationpb.New(200 * time.Millisecond)}); err == nil || !strings.Contains(err.Error(), "limits.timeout") && !strings.Contains(err.Error(), "timed out before the command ran") && !strings.Contains(err.Error(), "may have run") {
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
	pipe.SetReadDeadline(time.Now().Add(time.Minute))
	if rest, err := io.ReadAll(pipe); len(rest) > 0 || err != nil {
		t.Errorf("the command lives: %q, %v", rest, err)
	}
}
