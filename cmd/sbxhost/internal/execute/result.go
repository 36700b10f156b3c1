package execute

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// Result is what -result writes; docs/result.schema.json describes it. New fields may come; version
// changes when a field changes its meaning.
type Result struct {
	Version int `json:"version"` // 1
	host.Report
	// Session is the name of the session, or empty if it has no name.
	Session string `json:"session"`
}

// resultFile is the file of -result. Its directory is open from before the command runs, so that
// the command cannot redirect the result.
type resultFile struct {
	dir   *hostpath.Dir
	name  string
	ready func(*os.File) error // called with the written file; may be nil
}

// openPlace checks, by a write, that the path of a flag can be written, and removes an older file:
// if sbxhost were killed, somebody could take that for this run's result. On the way it follows no
// symlink in the directories of writable.
func openPlace(flag, path, cwd string, writable func() []string) (_ *resultFile, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", flag, err)
		}
	}()
	if path[len(path)-1] == filepath.Separator {
		return nil, fmt.Errorf("%s names a directory", cli.Quote(path))
	}
	dir, err := hostpath.OpenDir(cwd, filepath.Dir(path), writable)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the directory %s does not exist", cli.Quote(filepath.Dir(path)))
	} else if err != nil {
		return nil, err
	}
	r := &resultFile{dir: dir, name: filepath.Base(path)}
	if err := r.try(path); err != nil {
		dir.Close()
		return nil, err
	}
	return r, nil
}

func (r *resultFile) try(path string) error {
	switch st, err := r.dir.Lstat(r.name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%s is not a regular file", cli.Quote(path))
	default:
		if err := r.dir.Remove(r.name); err != nil {
			return err
		}
	}
	// Use the real name, which may be too long.
	f, err := r.dir.Create(r.name, 0o644)
	if err != nil {
		return err
	}
	f.Close()
	return r.dir.Remove(r.name)
}

// write replaces the file, completely or not at all.
func (r *resultFile) write(res *Result) (err error) {
	defer r.dir.Close()
	text, err := json.MarshalIndent(res, "", "  ")
	if err == nil {
		err = r.dir.Put(hostpath.TempName(), r.name, append(text, '\n'), 0o644, r.ready)
	}
	if err != nil {
		return fmt.Errorf("-result: %w", err)
	}
	return nil
}
