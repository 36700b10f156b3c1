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

// Binary is an executable that serves as the init.
type Binary struct {
	Path string
	// Self says that it is the running program.
	Self bool
}

// Locate returns the executable that serves as the init: a safe sbxhost-init in the directory of
// the running program, else the running program itself if it called [Hook]. Never one from PATH:
// the workspace could supply its own.
func Locate() (Binary, error) {
	program, err := os.Executable()
	if err != nil {
		return Binary{}, err
	}
	return locate(program, hooked.Load())
}

func locate(program string, isHooked bool) (Binary, error) {
	resolved, err := filepath.EvalSymlinks(program)
	if err != nil {
		// An update has replaced it while it runs: it can still open what runs.
		if isHooked {
			return Binary{Path: program, Self: true}, nil
		}
		return Binary{}, err
	}
	beside := filepath.Join(filepath.Dir(resolved), "sbxhost-init")
	info, err := os.Lstat(beside)
	if err == nil {
		err = hostpath.CheckExecutable(beside, info)
	}
	switch {
	case isHooked && (err != nil || resolved == beside):
		return Binary{Path: resolved, Self: true}, nil
	case errors.Is(err, fs.ErrNotExist):
		err = errors.New("install sbxhost-init as " + strconv.Quote(beside) +
			", or call host.ServeBuiltin, shared.Serve or sandboxinit.Hook first in the program's main")
	}
	if err != nil {
		return Binary{}, errors.New("no executable can serve as the init: " + err.Error())
	}
	return Binary{Path: beside}, nil
}

// Open returns an fd of the executable for the launcher to inherit. It checks the file again
// through that fd, so what was checked is what runs.
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
