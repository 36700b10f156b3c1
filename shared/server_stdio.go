package shared

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	pb "github.com/sbxhost/sbxhost/shared/enginepb"
)

// Stdin writes what the host sends into the command's pipe. It ends at the end
// of the input, when nothing has the pipe's other end any more, or with the
// command, whether the host is in the middle of something or not.
func (s *server) Stdin(stream pb.Engine_StdinServer) (err error) {
	defer s.settle("Stdin", &err)
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	p, err := s.process(first.GetProcessId())
	if err != nil {
		return err
	}
	if p.pipes == nil || p.pipes.stdin == nil || p.pipes.stdin.claimed.Swap(true) {
		return invalid("stdin", "is not streamed, or already is")
	}
	w := p.pipes.stdin.w
	done := make(chan struct{})
	go func() {
		defer close(done)
		in := stdinChunk{StdinRequest: &pb.StdinRequest{}}
		data := first.GetData()
		for {
			if _, err := w.Write(data); err != nil {
				return
			}
			if err := stream.RecvMsg(&in); err != nil {
				return
			}
			data = in.Data
		}
	}()
	select {
	case <-done:
	case <-p.pipes.ended:
	}
	w.Close() // also ends a Write that waits for a reader
	return stream.SendAndClose(&pb.StdinReply{})
}

// Output sends what comes out of one of the command's pipes.
func (s *server) Output(in *pb.OutputRequest, stream pb.Engine_OutputServer) (err error) {
	defer s.settle("Output", &err)
	p, err := s.process(in.GetProcessId())
	if err != nil {
		return err
	}
	i := in.GetFd() - 1
	if p.pipes == nil || i < 0 || int(i) >= len(p.pipes.outputs) || p.pipes.outputs[i] == nil {
		return invalid("output", "descriptor %d is not streamed", in.GetFd())
	}
	o := p.pipes.outputs[i]
	if o.claimed.Swap(true) {
		return invalid("output", "descriptor %d is already being fetched", in.GetFd())
	}
	defer close(o.finished)
	defer o.r.Close() // the command gets SIGPIPE when its reader is gone
	ctx := stream.Context()
	stop := context.AfterFunc(ctx, func() { o.r.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()

	// After the command's end the pipe holds at most its capacity of what the
	// command wrote. To read that much and no more loses nothing and is not
	// held up by a process in the background that keeps on writing.
	left := o.capacity
	for left > 0 {
		ended := p.pipes.hasEnded()
		if ended {
			o.r.SetReadDeadline(time.Now().Add(outputIdle))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		buf, data, err := s.chunks.fillFrom(o.r)
		if buf != nil {
			err := stream.SendMsg(&outputChunk{&pb.OutputReply{Data: data}, buf})
			buf.Free()
			if err != nil {
				return err
			}
		}
		if ended {
			left -= len(data)
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			if ended {
				return nil
			}
		default:
			return err
		}
	}
	return nil
}
