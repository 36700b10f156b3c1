package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrUnwritable is wrapped by every error about a line that was not written.
var ErrUnwritable = errors.New("the audit log cannot be written")

// Log appends to a file. Any number of goroutines and processes may call its methods. It opens the
// file for each line, so a program that rotates the file, such as logrotate, need not tell anybody.
type Log struct {
	path string
	sync func(*os.File) error
}

// New returns the log at an absolute path without symlinks, or nil for "". It does not open the file.
func New(path string) (*Log, error) {
	if path == "" {
		return nil, nil
	}
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("Options.AuditLog: %q is not absolute", path)
	}
	return &Log{path: filepath.Clean(path), sync: (*os.File).Sync}, nil
}

// Append writes one line. A nil Log writes nothing. The error wraps ErrUnwritable and the cause,
// and names the file.
func (l *Log) Append(r Record) error {
	if l == nil {
		return nil
	}
	if err := l.append(r); err != nil {
		return fmt.Errorf("%w: %w", ErrUnwritable, err)
	}
	return nil
}
