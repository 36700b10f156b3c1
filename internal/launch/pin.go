package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// Platform is this machine in the form of Source.SHA256, such as "linux_amd64".
func Platform() string { return runtime.GOOS + "_" + runtime.GOARCH }

// ErrChecksum is wrapped by the error of an engine whose executable is not the pinned one.
var ErrChecksum = errors.New("checksum mismatch")

// Checksum is the SHA-256 of a file in lower case hexadecimal.
func Checksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return checksum(f)
}

func checksum(f *os.File) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, 1<<62)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// openPinned opens an executable with a pinned checksum and verifies the opened file, which will be
// executed: the path could lead to another file a moment later.
func openPinned(path, want string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = hostpath.CheckExecutable(path, info)
	}
	var have string
	if err == nil {
		have, err = checksum(f)
	}
	if err == nil {
		err = compareChecksum(have, want)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func compareChecksum(have, want string) error {
	if have == want {
		return nil
	}
	return fmt.Errorf("%w: its SHA-256 is %s, and %s is pinned for %s; install the release that was pinned, or pin this one if you have checked it",
		ErrChecksum, have, want, Platform())
}
