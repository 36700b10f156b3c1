//go:build unix

package sandboxinit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// ErrNoBinary is wrapped by the error of [Locate] when no executable can serve
// as the init.
var ErrNoBinary = errors.New("no executable can serve as the init")

// Binary is an executable that serves as the init.
type Binary struct {
	// Path is where it lies.
	Path string
	// Self is true when it is the running program.
	Self bool
	// Refused says why a sbxhost-init beside the program was passed over for
	// the program itself. Nil if there was none.
	Refused error
}

// Locate returns the executable that serves as the init: a safe sbxhost-init in
// the directory of the running program, else the running program itself if it
// called [Hook]. Never one from PATH: the workspace could supply its own.
func Locate() (Binary, error) {
	program, err := os.Executable()
	if err != nil {
		return Binary{}, errors.Join(ErrNoBinary, err)
	}
	return locate(program, hooked.Load())
}

// LocateBeside is Locate for a program at the given path, which is never
// itself taken for the init.
func LocateBeside(program string) (Binary, error) {
	return locate(program, false)
}

func locate(program string, isHooked bool) (Binary, error) {
	resolved, err := filepath.EvalSymlinks(program)
	if err != nil {
		// Replaced by an update while running: what runs can still be opened.
		if isHooked {
			return Binary{Path: program, Self: true}, nil
		}
		return Binary{}, errors.Join(ErrNoBinary, err)
	}
	beside := filepath.Join(filepath.Dir(resolved), initArg)
	if resolved == beside && isHooked {
		return Binary{Path: resolved, Self: true}, nil
	}
	info, err := os.Lstat(beside)
	if err == nil {
		err = hostpath.CheckExecutable(beside, info)
		if err == nil {
			return Binary{Path: beside}, nil
		}
	}
	var refused error
	if !errors.Is(err, fs.ErrNotExist) {
		refused = err
	}
	if isHooked {
		return Binary{Path: resolved, Self: true, Refused: refused}, nil
	}
	if refused != nil {
		return Binary{}, errors.Join(ErrNoBinary, refused)
	}
	return Binary{}, &noBinaryError{beside}
}

type noBinaryError struct{ beside string }

func (e *noBinaryError) Unwrap() error { return ErrNoBinary }
func (e *noBinaryError) Error() string {
	return ErrNoBinary.Error() + ": install sbxhost-init as " + strconv.Quote(e.beside) +
		", or call host.ServeBuiltin, shared.Serve or sandboxinit.Hook first in the program's main"
}

// Open returns an fd of the executable for the launcher to inherit. The file is
// checked again through that fd, so what was checked is what runs.
func (b Binary) Open() (*os.File, error) {
	f, err := openBinary(b)
	if err != nil {
		return nil, err
	}
	if b.Self {
		return f, nil
	}
	info, err := f.Stat()
	if err == nil {
		err = hostpath.CheckExecutable(b.Path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
