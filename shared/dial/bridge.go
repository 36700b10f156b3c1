//go:build unix

package dial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	pb "github.com/sbxhost/sbxhost/shared/enginepb"
	"github.com/sbxhost/sbxhost/shared/wire"
)

// outputStall is how long after a command's end a reader may take none of its
// output before Wait stops waiting for it.
const outputStall = time.Second

// A bridge carries the caller's files to a command whose stdio is streamed. It
// has its own copies of them, for the caller may close its own after Start. A
// nil *bridge carries nothing.
type bridge struct {
	stdin   *input
	outputs [2]*output
	pumps   sync.WaitGroup
}

// output is one of the caller's files, which the command writes.
type output struct {
	file    *os.File
	writing atomic.Bool   // a write waits for the file's reader
	written atomic.Uint64 // chunks
	cancel  context.CancelFunc
	done    chan struct{}
	err     error // once done
}

// newBridge copies the files and says in the form of the request which there
// are.
func newBridge(stdio shared.Stdio) (_ *bridge, present uint32, err error) {
	b := &bridge{}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if stdio.Stdin != nil {
		present |= wire.HasStdin
		if b.stdin, err = newInput(stdio.Stdin); err != nil {
			return nil, 0, invalid("stdin", err)
		}
	}
	copyOutput := func(i int, f *os.File) error {
		dup, err := duplicate(f)
		if err == nil {
			b.outputs[i] = &output{file: dup, done: make(chan struct{})}
		}
		return err
	}
	if stdio.Stdout != nil {
		present |= wire.HasStdout
		if err = copyOutput(0, stdio.Stdout); err != nil {
			return nil, 0, invalid("stdout", err)
		}
	}
	switch {
	case stdio.Stderr == nil:
	case sameFile(stdio.Stdout, stdio.Stderr):
		present |= wire.HasStderr | wire.StderrIsStdout // or the order of their text would be lost
	default:
		present |= wire.HasStderr
		if err = copyOutput(1, stdio.Stderr); err != nil {
			return nil, 0, invalid("stderr", err)
		}
	}
	return b, present, nil
}

func sameFile(a, b *os.File) bool {
	if a == nil || b == nil {
		return false
	}
	if a == b {
		return true
	}
	infoA, errA := a.Stat()
	infoB, errB := b.Stat()
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// close gives up a bridge that was not started.
func (b *bridge) close() {
	if b == nil {
		return
	}
	if b.stdin != nil {
		b.stdin.close()
	}
	for _, o := range b.outputs {
		if o != nil {
			o.file.Close()
		}
	}
}

// start begins to carry, until the command has ended or ctx has.
func (b *bridge) start(ctx context.Context, engine pb.EngineClient, id string) {
	if b == nil {
		return
	}
	if b.stdin != nil {
		b.pumps.Go(func() { b.stdin.pump(ctx, engine, id) })
	}
	for i, o := range b.outputs {
		if o != nil {
			ctx, cancel := context.WithCancel(ctx)
			o.cancel = cancel
			b.pumps.Go(func() { o.pump(ctx, engine, &pb.OutputRequest{ProcessId: id, Fd: int32(i + 1)}) })
		}
	}
}

// finish is called after the command's end. It releases the input and waits
// for the output while somebody takes it, and for an engine that sends none for as
// long as patience; an error says that some was lost.
func (b *bridge) finish(patience time.Duration) error {
	if b == nil {
		return nil
	}
	if b.stdin != nil {
		b.stdin.release()
	}
	for i, o := range b.outputs {
		if o == nil {
			continue
		}
		if err := o.settled(patience); err != nil {
			return &shared.Error{Kind: shared.ErrBroken, Attribute: [...]string{"stdout", "stderr"}[i], Message: "output was lost: " + err.Error()}
		}
	}
	return nil
}

// wait waits for the pumps to be gone.
func (b *bridge) wait() {
	if b != nil {
		b.pumps.Wait()
	}
}

// settled waits until o is done, and gives its error, or until nobody reads what it
// writes. An engine that neither sends nor ends it for as long as patience is an error.
func (o *output) settled(patience time.Duration) error {
	stall := min(outputStall, patience)
	timer := time.NewTimer(stall)
	defer timer.Stop()
	var idle time.Duration
	for {
		before, wasWriting := o.written.Load(), o.writing.Load()
		select {
		case <-o.done:
			return o.err
		case <-timer.C:
		}
		writing, same := o.writing.Load(), o.written.Load() == before
		switch {
		case wasWriting && writing && same:
			return nil
		case writing || wasWriting || !same:
			idle = 0
		default:
			if idle += stall; idle >= patience {
				o.cancel()
				return fmt.Errorf("the engine has neither sent nor ended it for %v", patience)
			}
		}
		timer.Reset(stall)
	}
}

// pump writes what the engine sends. When the file's reader is gone, it ends
// the call, upon which the command gets SIGPIPE as it would have without us.
func (o *output) pump(ctx context.Context, engine pb.EngineClient, req *pb.OutputRequest) {
	defer close(o.done)
	defer o.file.Close()
	defer o.cancel()
	stream, err := engine.Output(ctx, req)
	if err != nil {
		o.err = errorFromStatus(err)
		return
	}
	for {
		reply, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			o.err = errorFromStatus(err)
			return
		}
		o.writing.Store(true)
		_, err = o.file.Write(reply.GetData())
		o.writing.Store(false)
		o.written.Add(1)
		if err != nil {
			if !errors.Is(err, syscall.EPIPE) {
				o.err = err
			}
			return
		}
	}
}
