//go:build unix

package stdio

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
)

// maxStderr is the limit of the kept standard error, in bytes.
const maxStderr = 64 << 10

// StderrExcerpt returns the beginning and the end of what a confined command wrote to its standard
// error, and to its standard output if both are one file. Call it after End. It is empty for a regular
// file to which processes may go on writing.
func (f *Files) StderrExcerpt() []byte {
	if f.stderrEnds == nil {
		return nil
	}
	return f.stderrEnds.Bytes()
}

// keepingEnds returns a writer to w that also keeps the ends in ends. Nil ends keep nothing.
func keepingEnds(w io.Writer, ends *Ends) io.Writer {
	if ends == nil {
		return w
	}
	return io.MultiWriter(ends, w)
}

// follow returns a duplicate of out, if out is a pipe, a socket or a regular file: the package then
// copies the command's output to it. For anything else, and for a regular file to which processes may
// go on writing, it returns nil.
func (f *Files) follow(out *os.File, mayOutlive bool) *os.File {
	info, err := out.Stat()
	if err != nil || !isCopied(info) || mayOutlive && info.Mode().IsRegular() {
		return nil
	}
	// Use a new descriptor number: a failed write to number 1 or 2 ends a Go program, but here the
	// command must decide that.
	again, err := duplicate(out)
	if err != nil {
		return nil
	}
	f.parent = append(f.parent, again)
	return again
}

// isCopied reports whether a file is a pipe, a socket or a regular file.
func isCopied(file os.FileInfo) bool {
	return file.Mode().IsRegular() || file.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}

func sameFile(f, g *os.File) bool {
	a, errA := f.Stat()
	b, errB := g.Stat()
	return errA == nil && errB == nil && os.SameFile(a, b)
}

func duplicate(f *os.File) (*os.File, error) {
	return another(f, func(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3) })
}

// another is a file with the descriptor that open makes of f's.
func another(f *os.File, open func(fd int) (int, error)) (again *os.File, err error) {
	err = frame.Control(f, func(fd int) error {
		fd, err := open(fd)
		if err == nil {
			again = os.NewFile(uintptr(fd), f.Name())
		}
		return err
	})
	return again, err
}
