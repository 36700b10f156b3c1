//go:build unix

package facts

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sbxhost/sbxhost/internal/sessiondir"
	"github.com/sbxhost/sbxhost/shared"
)

// useCopies shows the configurations that a command must see, from copies named by their checksums.
// If no copy is possible, the command sees the originals.
func (m *Machine) useCopies(out *Resolved) {
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
// and another user may neither list nor write it.
func (m *Machine) copies() string {
	if m.Owner != nil {
		gid := int(m.Owner.User.GID)
		dir := sessiondir.SystemBase()
		for _, name := range []string{"", "git", strconv.Itoa(gid)} {
			dir = filepath.Join(dir, name)
			if os.Mkdir(dir, 0o700) == nil && os.Chmod(dir, 0o711) != nil {
				return ""
			}
		}
		if os.Chown(dir, 0, gid) != nil || os.Chmod(dir, 0o710) != nil {
			return ""
		}
		return dir
	}
	sessions, err := sessiondir.UserBase(m.Caller.LookupEnv)
	if err != nil {
		return ""
	}
	way := Follow(filepath.Join(filepath.Dir(sessions), "git"))
	if way.Err != nil || os.MkdirAll(way.End, 0o700) != nil {
		return ""
	}
	return way.End
}

func (m *Machine) copyOf(content []byte) string {
	dir := m.copies()
	if dir == "" {
		return ""
	}
	sum := sha256.Sum256(content)
	file := filepath.Join(dir, hex.EncodeToString(sum[:]))
	if now, err := os.ReadFile(file); err == nil && bytes.Equal(now, content) {
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

// sweepCopies removes copies that are a day old: a killed host leaves that of its certificates. One
// in use stays mounted, and is made again for the next command.
func sweepCopies(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
