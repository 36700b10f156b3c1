//go:build unix

package dial

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

	pb "github.com/sbxhost/sbxhost/shared/enginepb"
	"golang.org/x/sys/unix"
)

// chunkSize is how much of an input one message carries at most.
const chunkSize = 128 << 10

// duplicate copies f's descriptor, and neither f's mode nor its position.
func duplicate(f *os.File) (*os.File, error) {
	fd, err := duplicateFD(f)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

func duplicateFD(f *os.File) (fd int, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	if ctlErr := conn.Control(func(from uintptr) {
		fd, err = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 0)
	}); ctlErr != nil {
		return -1, ctlErr
	}
	return fd, err
}

// input is the caller's file that the command reads. A read of it may wait for
// ever - a terminal, a pipe whose writer has no more to say - and must not
// outlast the command, so that each is preceded by a wait that a second
// descriptor can end. It is the raw descriptor because its mode, blocking or
// not, is shared with the caller and must stay.
type input struct {
	fd   int
	wake [2]*os.File // reader, writer

	mu       sync.Mutex
	released bool
}

func newInput(f *os.File) (*input, error) {
	fd, err := duplicateFD(f)
	if err != nil {
		return nil, err
	}
	in := &input{fd: fd}
	if in.wake[0], in.wake[1], err = os.Pipe(); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return in, nil
}

func (in *input) close() {
	unix.Close(in.fd)
	in.wake[0].Close()
	in.release()
}

// release ends the pump wherever it is.
func (in *input) release() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.released {
		in.released = true
		in.wake[1].Close()
	}
}

// pump sends what the file holds until its end, until release, or until the
// engine ends the call because nothing reads it any more. It stops reading
// then: whoever writes into the other end is to see that the reader is gone.
func (in *input) pump(ctx context.Context, engine pb.EngineClient, id string) {
	defer in.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The engine's end of the call must be noticed while no input comes.
	stream, err := engine.Stdin(ctx)
	if err != nil {
		return
	}
	if err := stream.Send(&pb.StdinRequest{ProcessId: id}); err != nil {
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = stream.RecvMsg(new(pb.StdinReply))
		in.release()
	}()
	defer func() { <-ended }()
	wake := int(in.wake[0].Fd())
	buf := make([]byte, chunkSize)
	for {
		err := in.waitReadable(wake)
		if err != nil {
			cancel()
			return
		}
		n, err := in.read(buf)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, io.EOF) {
			stream.CloseSend()
			return
		}
		if err != nil {
			cancel()
			return
		}
		if err := stream.Send(&pb.StdinRequest{Data: buf[:n]}); err != nil {
			return
		}
	}
}

// waitReadable waits until a read would not; it gives os.ErrClosed when
// released.
func (in *input) waitReadable(wake int) error {
	woken, err := waitReadable(in.fd, wake)
	if err == nil && woken {
		err = os.ErrClosed
	}
	return err
}

// read is one read; it gives io.EOF at the end of the file.
func (in *input) read(buf []byte) (int, error) {
	n, err := unix.Read(in.fd, buf)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}
