//go:build unix

package shared

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/wire"
	pb "github.com/sbxhost/sbxhost/shared/enginepb"
)

// A servedProcess is a command during its call of Run.
type servedProcess struct {
	Process
	ended  chan struct{}
	result Result // valid after the end
	err    error  // valid after the end
}

// Run lasts as long as the command. If the call ends first, the command is killed.
func (s *server) Run(in *pb.RunRequest, stream pb.Engine_RunServer) (err error) {
	defer s.finishCall("Run", &err)
	ctx := stream.Context()
	box, err := s.sandbox(in.GetSandboxId())
	if err != nil {
		return err
	}
	cmd, err := commandFromPB(in.GetCommand())
	if err != nil {
		return err
	}
	stdio, err := s.stdio(ctx, in)
	if err != nil {
		return err
	}
	started, err := start(ctx, box, cmd, stdio)
	if err != nil {
		return err
	}
	p := &servedProcess{Process: started, ended: make(chan struct{})}
	go s.wait(p)
	id := s.newID()
	s.processes.Store(id, p)
	defer s.processes.Delete(id)

	err = stream.Send(&pb.RunReply{Kind: &pb.RunReply_Started{Started: &pb.Started{ProcessId: id}}})
	if err == nil {
		err = s.attend(stream, p)
	}
	if err != nil {
		s.kill(p)
		return err
	}
	if p.err == nil && p.result.Status.Signal == syscall.SIGKILL && s.closing.Load() {
		// shutdown has killed it: that is not the command's own end.
		return &Error{Kind: ErrClosed, Message: "the engine was told to end, and its commands with it"}
	}
	reply := &pb.RunReply{Kind: &pb.RunReply_Exited{Exited: pb.To[pb.Result](&p.result)}}
	if p.err != nil {
		reply.Kind = &pb.RunReply_Broken{Broken: errorToPB(p.err)}
	}
	return stream.Send(reply)
}

// stdio returns the command's files from the host.
func (s *server) stdio(ctx context.Context, in *pb.RunRequest) (stdio Stdio, err error) {
	present := in.GetStdioPresent()
	if present >= 1<<3 {
		return stdio, invalid("stdio", "the bits %#x are unknown to this engine", present)
	}
	var to []**os.File
	for i, f := range []**os.File{&stdio.Stdin, &stdio.Stdout, &stdio.Stderr} {
		if present&(1<<i) != 0 {
			to = append(to, f)
		}
	}
	if len(to) == 0 {
		return stdio, nil
	}
	var token wire.FilesToken
	if len(in.GetStdioToken()) != len(token) {
		return stdio, invalid("stdio", "this engine takes descriptors under a token of %d bytes, got %d", len(token), len(in.GetStdioToken()))
	}
	copy(token[:], in.GetStdioToken())
	files, err := s.inbox.claim(ctx, token, len(to))
	for i, f := range files {
		*to[i] = f
	}
	return stdio, err
}

// start always closes this process's copies of the files. Only the command may have them, or a
// reader would never see the end.
func start(ctx context.Context, box Sandbox, cmd Command, stdio Stdio) (Process, error) {
	defer frame.CloseFiles([]*os.File{stdio.Stdin, stdio.Stdout, stdio.Stderr})
	if err := stdio.Validate(); err != nil {
		return nil, err
	}
	return box.Start(ctx, cmd, stdio)
}

func (s *server) wait(p *servedProcess) {
	defer close(p.ended)
	defer func() {
		if r := recover(); r != nil {
			p.err = s.panicked("Wait", r)
		}
	}()
	p.result, p.err = p.Wait(context.Background())
}

// attend forwards events until the command has ended. After an error the call fails and the command
// is killed.
func (s *server) attend(stream pb.Engine_RunServer, p *servedProcess) error {
	ctx := stream.Context()
	events := p.Events()
	ended := p.ended
	var grace <-chan time.Time
	for ended != nil || events != nil {
		select {
		case e, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			event := pb.To[pb.Event](&e)
			if event.Size() > wire.MaxMessage-64 { // for the message around it
				event = pb.To[pb.Event](&Event{Kind: EventDropped, Time: e.Time, Message: "it was longer than a message can be", Details: map[string]string{"count": "1"}})
			}
			if err := stream.Send(&pb.RunReply{Kind: &pb.RunReply_Event{Event: event}}); err != nil {
				return err
			}
		case <-ended:
			ended = nil
			if events != nil {
				grace = time.After(eventGrace)
			}
		case <-grace:
			s.log.Warn("the engine leaves the channel of a command's events open after its end")
			events = nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// kill ends a command that nobody waits for, and returns when it has ended.
func (s *server) kill(p *servedProcess) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTime)
	defer cancel()
	if err := p.Signal(ctx, syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.log.Warn("killing an abandoned command", "error", err)
	}
	<-p.ended
}
