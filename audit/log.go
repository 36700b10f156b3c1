package audit

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Options choose a log. The zero value is none.
type Options struct {
	// Path is the file, absolute; empty means that nothing is logged.
	Path string
	// MaxSize is how many bytes the file may have before it is rotated; zero
	// means DefaultMaxSize.
	MaxSize uint64
	// Keep is how many rotated files are kept; zero means DefaultKeep.
	Keep uint64
	// Continue has commands run that cannot be logged, and reports it. They are
	// refused otherwise.
	Continue bool
	// NoSync leaves it to the operating system when lines reach the disk: a power cut
	// loses those of the last half minute or so. Else Append returns when they are there.
	NoSync bool
}

// What Options have where they do not say.
const (
	DefaultMaxSize = 10 << 20
	DefaultKeep    = 5
)

// maxKeep bounds the renames of one rotation.
const maxKeep = 1000

// ErrUnwritable is wrapped by every error of a line that was not written.
var ErrUnwritable = errors.New("the audit log cannot be written")

// Log appends to a file. Its methods may be called from any number of
// goroutines and processes; the file is opened for each line, so that one who
// rotates it from outside is followed.
type Log struct {
	path    string
	maxSize int64
	keep    int
	sync    func(*os.File) error
}

// New gives a log, or nil where the options ask for none. It touches nothing.
func New(o Options) (*Log, error) {
	if o.Path == "" {
		return nil, nil
	}
	switch {
	case !filepath.IsAbs(o.Path):
		return nil, fmt.Errorf("audit.path: %q is not absolute", o.Path)
	case o.Keep > maxKeep:
		return nil, fmt.Errorf("audit.keep: %d is more than %d", o.Keep, maxKeep)
	case o.MaxSize > 1<<40:
		return nil, fmt.Errorf("audit.max_size: %d is more than a TiB", o.MaxSize)
	}
	l := &Log{path: filepath.Clean(o.Path), maxSize: int64(cmp.Or(o.MaxSize, DefaultMaxSize)), keep: int(cmp.Or(o.Keep, DefaultKeep)), sync: (*os.File).Sync}
	if o.NoSync {
		l.sync = func(*os.File) error { return nil }
	}
	return l, nil
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
