package review

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// A review's records decide what is written where, also outside of the workspace. They lie beside
// the workspace, where commands of a workspace around it may write. So a key of the user, which no
// command sees, seals them, and every host hides all directories of the user's reviews.

const keyFile = "key"

// keysIn is the directory of a user's state with the key, and a file for each directory of reviews,
// with its workspace.
func keysIn(state string) string {
	if state == "" {
		return ""
	}
	return filepath.Join(state, "reviews")
}

// Bases returns the directories of all reviews of the user with this state directory.
func Bases(state string) (list []string) {
	dir := keysIn(state)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() == keyFile {
			continue
		}
		root, _ := os.ReadFile(filepath.Join(dir, e.Name()))
		if base := Base(string(root)); storeName(string(root)) == e.Name() {
			if _, err := os.Lstat(base); err == nil {
				list = append(list, base)
			}
		}
	}
	return list
}

// register makes the key, and records a directory of reviews.
func (s *Store) register() error {
	if s.keys == "" {
		return fs.ErrNotExist
	}
	if err := hostpath.MakePrivate(s.keys, 0o700); err != nil {
		return err
	}
	if !has(s.keys, keyFile) {
		if err := writeFile(s.keys, keyFile, []byte(rand.Text()), true, os.Link); err != nil && !errors.Is(err, fs.ErrExist) { // another process was faster
			return err
		}
	}
	if has(s.keys, storeName(s.root)) {
		return nil
	}
	return writeFile(s.keys, storeName(s.root), []byte(s.root), true, os.Rename)
}

var errNotOurs = errors.New("this is not your review: somebody else, or a command, has written it; remove its directory")

// seal is the signature of a value of this workspace and this review, which only the key can make: the
// first line of its file.
func (s *Store) seal(dir string, value []byte) ([]byte, error) {
	key, err := os.ReadFile(s.keys + "/" + keyFile) // not Join: without a directory, the key would be a file of the current one, which a command can make
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s\x00%s\x00", s.root, filepath.Base(dir))
	mac.Write(value)
	return fmt.Appendf(nil, "%x\n", mac.Sum(nil)), err
}

// read reads a value of a review. If somebody else wrote it, the error names the file.
func (s *Store) read(dir, name string, v any) error {
	file := filepath.Join(dir, name)
	b, err := readRegular(file, maxSealed)
	if err != nil && !errors.Is(err, hostpath.ErrIrregular) { // which is sealed by nobody
		return err
	}
	value := b[bytes.IndexByte(b, '\n')+1:]
	seal, err := s.seal(dir, value)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !hmac.Equal(seal, b[:len(b)-len(value)]) {
		err = errNotOurs
	} else if err == nil {
		err = json.Unmarshal(value, v)
	}
	if err != nil {
		return &fs.PathError{Op: "read", Path: hostpath.Quote(file), Err: err}
	}
	return nil
}

// maxSealed bounds a sealed file, in bytes.
const maxSealed = 256 << 20

// readRegular reads a file that somebody else may have made: no symlink.
func readRegular(file string, limit int64) ([]byte, error) {
	fd, err := hostpath.Openat(unix.AT_FDCWD, file, hostpath.Reading|unix.O_NOFOLLOW, 0)
	return hostpath.ReadRegular(fd, err, file, limit, limit)
}

// write writes a file completely or not at all.
func (s *Store) write(dir, name string, v any) error { return s.put(dir, name, v, false) }

// put is write, with the data on the disk first if sync says so.
func (s *Store) put(dir, name string, v any, sync bool) error {
	value, err := json.Marshal(v)
	if err != nil {
		return err
	}
	seal, err := s.seal(dir, value)
	if err != nil {
		return err
	}
	if len(seal)+len(value) > maxSealed { // read would refuse it
		return fmt.Errorf("%w: its journal would have more than %d MiB; apply it in parts, each with other paths", errTooLarge, maxSealed>>20)
	}
	return writeFile(dir, name, append(seal, value...), sync, os.Rename)
}

// writeFile makes a complete file appear, by a link or in place of another.
func writeFile(dir, name string, data []byte, sync bool, as func(from, to string) error) error {
	f, err := os.CreateTemp(dir, "new-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if sync {
		err = errors.Join(err, f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return as(f.Name(), filepath.Join(dir, name))
}
