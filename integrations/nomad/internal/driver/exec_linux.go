package driver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/hashicorp/nomad/plugins/drivers/proto"

	"github.com/sbxhost/sbxhost/host"
)

// ExecTask runs a command in the task's sandbox, for Nomad's script checks.
func (e *executor) ExecTask(ctx context.Context, req *proto.ExecTaskRequest) (*proto.ExecTaskResponse, error) {
	if err := e.running(); err != nil {
		return nil, err
	}
	cmd := e.command(ctx, req.Command...)
	cmd.Timeout = req.GetTimeout().AsDuration()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	result, err := exitResult(cmd.Run())
	if err != nil {
		return nil, err
	}
	return &proto.ExecTaskResponse{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Result: result}, nil
}

// ExecTaskStreaming runs a command in the task's sandbox for a person.
func (e *executor) ExecTaskStreaming(stream proto.Driver_ExecTaskStreamingServer) error {
	if err := e.running(); err != nil {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if first.Setup == nil {
		return errors.New("exec: the first message does not say what to run")
	}
	cmd := e.command(stream.Context(), first.Setup.Command...)
	cmd.TTY = first.Setup.Tty
	var sending sync.Mutex
	send := func(m *proto.ExecTaskStreamingResponse) error {
		sending.Lock()
		defer sending.Unlock()
		return stream.Send(m)
	}
	cmd.Stdout = sender(func(op *proto.ExecTaskStreamingIOOperation) error {
		return send(&proto.ExecTaskStreamingResponse{Stdout: op})
	})
	if !cmd.TTY {
		cmd.Stderr = sender(func(op *proto.ExecTaskStreamingIOOperation) error {
			return send(&proto.ExecTaskStreamingResponse{Stderr: op})
		})
	}
	stdin, typed := io.Pipe()
	cmd.Stdin = stdin
	defer stdin.Close()
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		// An error of Recv ends the stream: either its context ended, which kills the command, or
		// the typed input ended.
		typed.CloseWithError(receive(stream, cmd, typed))
	}()
	result, err := exitResult(cmd.Wait())
	if err != nil {
		return err
	}
	closed := &proto.ExecTaskStreamingIOOperation{Close: true}
	return errors.Join(send(&proto.ExecTaskStreamingResponse{Stdout: closed}), send(&proto.ExecTaskStreamingResponse{Stderr: closed}),
		send(&proto.ExecTaskStreamingResponse{Exited: true, Result: result}))
}

// receive passes on the typed input, to its end.
func receive(stream proto.Driver_ExecTaskStreamingServer, cmd *host.Cmd, typed *io.PipeWriter) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if size := m.TtySize; size != nil {
			cmd.Resize(host.TerminalSize{Rows: uint16(size.Height), Cols: uint16(size.Width)}) // too late is no error
		}
		if data := m.GetStdin().GetData(); len(data) > 0 {
			typed.Write(data) // an error is that the command has ended, or does not read
		}
		if m.GetStdin().GetClose() {
			typed.Close()
		}
	}
}

// sender is an io.Writer to one direction of a stream.
type sender func(*proto.ExecTaskStreamingIOOperation) error

func (s sender) Write(p []byte) (int, error) {
	if err := s(&proto.ExecTaskStreamingIOOperation{Data: bytes.Clone(p)}); err != nil {
		return 0, err
	}
	return len(p), nil
}
