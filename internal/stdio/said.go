//go:build unix

package stdio

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxSaid is the limit of the kept standard error, in bytes.
const maxSaid = 64 << 10

// StderrExcerpt returns the beginning and the end of what a confined command wrote to its standard
// error, and to its standard output if both are one file. Call it after End.
func (f *Files) StderrExcerpt() []byte {
	if f.stderrEnds == nil {
		return nil
	}
	if f.log != nil {
		return f.log.read()
	}
	return f.stderrEnds.Bytes()
}

// keeping writes to w, and also keeps the ends in said. A nil said keeps nothing.
func keeping(w io.Writer, said *Ends) io.Writer {
	if said == nil {
		return w
	}
	return keeper{w, said}
}

type keeper struct {
	io.Writer
	ends *Ends
}

func (k keeper) Write(p []byte) (int, error) {
	k.ends.Write(p)
	return k.Writer.Write(p)
}

// follow returns a duplicate of out, if out is a pipe or a socket: the package then copies the
// command's output to it. For a regular file, which StderrExcerpt reads later, and for anything
// else, it returns nil.
func (f *Files) follow(out *os.File) *os.File {
	info, err := out.Stat()
	if err != nil {
		return nil
	}
	if info.Mode().IsRegular() {
		f.log = appendedTo(out, info.Size())
	}
	if info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
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

// samePipe reports whether two files are the same pipe or socket.
func samePipe(f, g *os.File) bool {
	a, errA := f.Stat()
	b, errB := g.Stat()
	return errA == nil && errB == nil && a.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0 && os.SameFile(a, b)
}

// appended is the part of a regular file that a command has appended.
type appended struct {
	file  *os.File
	start int64
}

func appendedTo(file *os.File, size int64) *appended {
	// A file in append mode has no position before its first write.
	at, err := file.Seek(0, io.SeekCurrent)
	if err != nil || at == 0 || at > size {
		at = size
	}
	return &appended{file, at}
}

// read returns the end of that part; nil if the file cannot be read.
func (a *appended) read() []byte {
	info, err := a.file.Stat()
	if err != nil {
		return nil
	}
	start := max(a.start, info.Size()-maxSaid)
	if info.Size() < a.start {
		start = max(0, info.Size()-maxSaid) // it was truncated
	}
	text := make([]byte, min(maxSaid, max(0, info.Size()-start)))
	n, err := a.file.ReadAt(text, start)
	if n == 0 && err != nil && !errors.Is(err, io.EOF) {
		// The file may be open for writing alone, as after a shell's redirection.
		again, err := reopen(a.file)
		if err != nil {
			return nil
		}
		defer again.Close()
		n, _ = again.ReadAt(text, start)
	}
	return text[:n]
}

// reopen opens a file for reading that may be open for writing alone, if the system has a path for
// it.
func reopen(f *os.File) (again *os.File, err error) {
	err = control(f, func(fd int) (err error) {
		again, err = os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
		return err
	})
	return again, err
}

func duplicate(f *os.File) (again *os.File, err error) {
	err = control(f, func(fd int) error {
		fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err == nil {
			again = os.NewFile(uintptr(fd), f.Name())
		}
		return err
	})
	return again, err
}
