//go:build !linux

package launch

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// executePinned makes cmd execute a copy of the verified file, in a private directory: this system
// cannot execute a descriptor, and the path could lead to another file. The caller removes dir.
func executePinned(cmd *exec.Cmd, verified *os.File, sum string) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "sbxhost-pinned-"); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	cmd.Path = filepath.Join(dir, "engine")
	out, err := os.OpenFile(cmd.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return dir, err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, h), io.NewSectionReader(verified, 0, 1<<62))
	err = cmp.Or(err, out.Close())
	if err == nil {
		err = compareChecksum(hex.EncodeToString(h.Sum(nil)), sum)
	}
	return dir, err
}
