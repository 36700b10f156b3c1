package shared_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"sync"
	"time"

	. "github.com/sbxhost/sbxhost/shared"
	pb "github.com/sbxhost/sbxhost/shared/enginepb"
	"github.com/sbxhost/sbxhost/shared/wire"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
)

// streamingServer serves an engine as one in another language may: it takes no
// descriptors, and stdio is streamed.
type streamingServer struct {
	*Server
	mu    sync.Mutex
	pipes map[string]*streamedPipes // by process
}

// streamedPipes are this side's ends of a command's files.
type streamedPipes struct {
	stdin   *os.File
	outputs [2]*os.File
	fetched sync.WaitGroup
	ended   chan struct{}
}

func (s *streamingServer) Info(ctx context.Context, in *pb.InfoRequest) (*pb.InfoReply, error) {
	reply, err := s.Server.Info(ctx, in)
	if err == nil {
		reply.StdioDescriptors = false
	}
	return reply, err
}

func (s *streamingServer) Run(in *pb.RunRequest, stream pb.Engine_RunServer) error {
	p := &streamedPipes{ended: make(chan struct{})}
	var files []*os.File
	if in.StdioPresent&wire.HasStdin != 0 {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		p.stdin, files = w, append(files, r)
		defer w.Close()
	}
	for i, bit := range []uint32{wire.HasStdout, wire.HasStderr} {
		if in.StdioPresent&bit == 0 {
			continue
		}
		if bit == wire.HasStderr && in.StdioPresent&wire.StderrIsStdout != 0 {
			files = append(files, files[len(files)-1])
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		p.outputs[i], files = r, append(files, w)
		p.fetched.Add(1)
		defer r.Close()
	}
	in.StdioPresent &^= wire.StderrIsStdout
	if len(files) > 0 {
		var token wire.FilesToken
		rand.Read(token[:])
		s.Put(token, files)
		in.StdioToken = token[:]
	}
	id := ""
	err := s.Server.Run(in, &interceptedRun{stream, func(reply *pb.RunReply) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if started := reply.GetStarted(); started != nil {
			id = started.GetProcessId()
			s.pipes[id] = p
		}
		if reply.GetExited() != nil || reply.GetBroken() != nil {
			close(p.ended)
			for _, f := range p.outputs {
				if f != nil { // a process in the background may have it for ever
					f.SetReadDeadline(time.Unix(1, 0))
				}
			}
		}
	}})
	if err == nil {
		fetched := make(chan struct{})
		go func() {
			p.fetched.Wait()
			close(fetched)
		}()
		select {
		case <-fetched:
		case <-stream.Context().Done():
		}
	}
	s.mu.Lock()
	delete(s.pipes, id)
	s.mu.Unlock()
	return err
}

// interceptedRun is told of each reply before it is sent.
type interceptedRun struct {
	grpc.ServerStreamingServer[pb.RunReply]
	sending func(*pb.RunReply)
}

func (r *interceptedRun) Send(reply *pb.RunReply) error {
	r.sending(reply)
	return r.ServerStreamingServer.Send(reply)
}

func (s *streamingServer) Stdin(stream pb.Engine_StdinServer) error {
	in, err := stream.Recv()
	if err != nil {
		return err
	}
	s.mu.Lock()
	p := s.pipes[in.GetProcessId()]
	s.mu.Unlock()
	if p == nil { // the command has ended
		return stream.SendAndClose(&pb.StdinReply{})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for err == nil {
			if _, err = p.stdin.Write(in.GetData()); err == nil {
				in, err = stream.Recv()
			}
		}
	}()
	select {
	case <-done:
	case <-p.ended:
	}
	p.stdin.Close() // also ends a Write that waits for a reader
	return stream.SendAndClose(&pb.StdinReply{})
}

func (s *streamingServer) Output(in *pb.OutputRequest, stream pb.Engine_OutputServer) error {
	s.mu.Lock()
	p := s.pipes[in.GetProcessId()]
	s.mu.Unlock()
	defer p.fetched.Done()
	f := p.outputs[in.GetFd()-1]
	defer f.Close() // the command gets SIGPIPE when its reader is gone
	defer context.AfterFunc(stream.Context(), func() { f.SetReadDeadline(time.Unix(1, 0)) })()
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := f.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) && stream.Context().Err() == nil { // the command's own is in the pipe by now
			f.SetReadDeadline(time.Time{})
			err = raw.Read(func(fd uintptr) bool { n, _ = unix.Read(int(fd), buf); return true })
			f.SetReadDeadline(time.Unix(1, 0))
		}
		if err != nil || n <= 0 {
			return nil
		}
		if err := stream.Send(&pb.OutputReply{Data: buf[:n]}); err != nil {
			return err
		}
	}
}
