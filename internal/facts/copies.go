//go:build unix

package facts

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/sessiondir"
	"github.com/sbxhost/sbxhost/shared"
)

// useCopies shows the configurations that a command must see, from copies named by their checksums.
// If no copy is possible, the command sees the originals.
func (m *Machine) useCopies(out *Resolution) {
	for i := range out.Spec.Table {
		e := &out.Spec.Table[i]
		content, ok := out.FixedContents[e.Source]
		if !ok || e.Access != shared.ReadOnly {
			continue
		}
		// If commands could write to the copy, one could tell another's git what to run.
		if file := m.copyOf(content); file != "" && !out.WritableAt(file) {
			if out.Copies == nil {
				out.Copies = map[string]string{}
			}
			out.Copies[file], e.Source = e.Source, file
		}
	}
}

// copies returns the directory of the copies, or "". The commands' user must be able to search it,
// and another user may neither list nor write it: nobody can name a copy without its content.
func (m *Machine) copies() string {
	base, mode := sessiondir.SystemBase(), fs.FileMode(0o711)
	if m.Owner == nil {
		sessions, err := sessiondir.UserBase(m.Caller.LookupEnv)
		if err != nil {
			return ""
		}
		base, mode = filepath.Dir(sessions), 0o700
	}
	way := Follow(filepath.Join(base, "git"))
	if way.Err != nil || hostpath.MakePrivate(way.End, mode) != nil {
		return ""
	}
	return way.End
}

func (m *Machine) copyOf(content []byte) string {
	dir := m.copies()
	if dir == "" {
		return ""
	}
	file := filepath.Join(dir, fmt.Sprintf("%x", sha256.Sum256(content)))
	if text, err := os.ReadFile(file); err == nil && bytes.Equal(text, content) {
		_ = os.Chtimes(file, time.Time{}, time.Now()) // else another command could sweep it before this one mounts it
		return file
	}
	temp, err := os.CreateTemp(dir, ".new-")
	if err != nil {
		return ""
	}
	_, err = temp.Write(content)
	if err = errors.Join(err, temp.Chmod(0o444), temp.Close()); err == nil {
		err = os.Rename(temp.Name(), file)
	}
	if err != nil {
		os.Remove(temp.Name())
		return ""
	}
	sweepCopies(dir)
	return file
}

// sweepCopies removes copies that no command has used for a day: a killed host leaves that of its
// certificates. One that is mounted stays so.
func sweepCopies(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
