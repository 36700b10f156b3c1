package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrUnwritable is wrapped by every error of a line that was not written.
var ErrUnwritable = errors.New("the audit log cannot be written")

// Log appends to a file. Its methods may be called from any number of
// goroutines and processes. The file is opened for each line, so that whoever rotates it,
// such as logrotate, needs to tell nobody.
type Log struct {
	path string
	sync func(*os.File) error
}

// New gives the log that is the file of an absolute path, or nil for "". It touches nothing.
func New(path string) (*Log, error) {
	if path == "" {
		return nil, nil
	}
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("Options.AuditLog: %q is not absolute", path)
	}
	return &Log{path: filepath.Clean(path), sync: (*os.File).Sync}, nil
}

// Path is the log's file.
func (l *Log) Path() string { return l.path }

// Append writes one line. A nil Log writes nothing. The error wraps
// ErrUnwritable, and the cause, and names the file.
func (l *Log) Append(r Record) error {
	if l == nil {
		return nil
	}
	if err := l.append(r); err != nil {
		return fmt.Errorf("%w: %w", ErrUnwritable, err)
	}
	return nil
}
