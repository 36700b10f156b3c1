//go:build unix

package sessiondir

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
)

// An InUseError says that somebody else has a named session, or something like it. It wraps
// ErrInUse, or the error of that meaning.
type InUseError struct {
	What string // such as: session "s"
	// Holder names the processes that have it, as far as this one may see them. The first call looks.
	Holder func() string
	kind   error
}

// InUse returns the InUseError for the holders of a lock file.
func InUse(what, lock string, kind error) *InUseError {
	return &InUseError{what, sync.OnceValue(func() string { return holder(lock) }), kind}
}

func inUse(name, dir string) error {
	return InUse(fmt.Sprintf("session %q", name), filepath.Join(dir, lockFile), ErrInUse)
}

func (e *InUseError) Error() string { return fmt.Sprintf("%s is in use by %s", e.What, e.Holder()) }

func (e *InUseError) Unwrap() error { return e.kind }

func holder(lock string) string {
	pids := lockHolders(lock)
	switch len(pids) {
	case 0:
		return "another process"
	case 1:
		return fmt.Sprint("process ", pids[0])
	}
	return "processes " + strings.Trim(fmt.Sprint(pids), "[]")
}
