package host

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	cpty "github.com/creack/pty"

	"github.com/sbxhost/sbxhost/shared"
)

const killSignal = syscall.SIGKILL

// pty is a terminal pair that the host owns. A nil one can be closed.
type pty struct {
	master, slave *os.File
	once          sync.Once
}

func openPTY(size shared.TerminalSize) (*pty, error) {
	master, slave, err := cpty.Open()
	if err != nil {
		return nil, err
	}
	p := &pty{master: master, slave: slave}
	if size == (shared.TerminalSize{}) {
		size = shared.TerminalSize{Rows: 24, Cols: 80}
	}
	if err := p.resize(size); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// resize sets the size; the kernel tells the foreground process group.
func (p *pty) resize(size shared.TerminalSize) error {
	return cpty.Setsize(p.master, &cpty.Winsize{Rows: size.Rows, Cols: size.Cols})
}

// output reads what the command writes, up to its end.
func (p *pty) output() io.Reader { return ptyReader{p.master} }

func (p *pty) close() {
	if p == nil {
		return
	}
	p.once.Do(func() {
		p.master.Close()
		p.slave.Close()
	})
}

// ptyReader reads EIO, which Linux gives once the last slave is closed, as the
// end.
type ptyReader struct{ master *os.File }

func (r ptyReader) Read(b []byte) (int, error) {
	n, err := r.master.Read(b)
	if errors.Is(err, syscall.EIO) {
		err = io.EOF
	}
	return n, err
}
