package stubs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/hostpath"
)

// account locks out all others of this user, opens the ledger and the cache, and reads
// the ledgers of others. Where that cannot be done, there are no others to be known of,
// and unlock does nothing.
func (r *Registry) account(ctx context.Context) (others []*other, unlock func(), err error) {
	r.accounted = false
	if r.dir == "" {
		return nil, func() {}, errors.New("stubs: there is no directory for ledgers")
	}
	release, err := r.lock(ctx)
	if err != nil {
		return nil, func() {}, err
	}
	if err = r.open(); err == nil {
		err = r.compact()
	}
	if err == nil {
		others, err = r.others()
	}
	if r.accounted = err == nil; r.accounted {
		r.cache, _ = openCache(r.dir, unix.LOCK_EX, &r.misses) // else there is none for now
	}
	return others, func() { r.cache = r.cache.close(); release() }, err
}

// other is the ledger of another Registry.
type other struct {
	name    string
	records map[string]record
	dead    bool
}

const (
	lockName = "lock"
	suffix   = ".ledger"
)

// others reads the ledgers of all others. The caller holds the lock.
func (r *Registry) others() ([]*other, error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil, fmt.Errorf("stubs: %w", err)
	}
	var list []*other
	for _, e := range entries {
		name := filepath.Join(r.dir, e.Name())
		if !strings.HasSuffix(name, suffix) || r.ledger != nil && name == r.ledger.Name() {
			continue
		}
		o, err := readOther(name)
		if err != nil {
			return nil, fmt.Errorf("stubs: %w", err)
		}
		if o != nil {
			list = append(list, o)
		}
	}
	return list, nil
}

func readOther(name string) (*other, error) {
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer closeLocked(f)
	dead := hostpath.TryLock(int(f.Fd()), unix.LOCK_EX) == nil
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	return &other{name, parse(string(text)), dead}, nil
}

// closeLocked closes a ledger. A child that this process has just forked has it open, too, until
// it executes: the ledger must not seem to be of the living for so long.
func closeLocked(f *os.File) error {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	return f.Close()
}

// sweep removes what is in the ledgers of the dead alone, and those ledgers, and
// what this one had to leave. What somebody still has a claim to stays in its
// ledger.
func (r *Registry) sweep(others []*other) {
	alive := func(p string) bool {
		return r.held[p] != nil || slices.ContainsFunc(others, func(x *other) bool { _, ok := x.records[p]; return ok && !x.dead })
	}
	for _, o := range others {
		if o.dead && !removeAll(o.records, alive, func(string) {}) {
			os.Remove(o.name)
		}
	}
	if len(r.left) == 0 || !r.accounted {
		return
	}
	var done strings.Builder
	removeAll(r.left, alive, func(p string) {
		delete(r.left, p)
		done.WriteString(gone(p))
	})
	r.note(done.String())
}

// removeAll removes what is recorded and not needed by the living, and reports
// whether something had to be left.
func removeAll(records map[string]record, alive func(path string) bool, removed func(path string)) (left bool) {
	paths := slices.Sorted(maps.Keys(records))
	for _, p := range slices.Backward(paths) { // what lies deeper goes first
		rec := records[p]
		if alive(p) || !rec.remove(-1, nil) {
			removed(p)
		} else {
			left = true
		}
	}
	return left
}

// open makes this Registry's ledger. The caller holds the lock, so nobody takes
// a ledger that is not locked yet for one of the dead.
func (r *Registry) open() error {
	if r.ledger != nil {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(r.dir, rand.Text()+suffix), os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("stubs: %w", err)
	}
	if err := hostpath.TryLock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		os.Remove(f.Name())
		return fmt.Errorf("stubs: %s: %w", f.Name(), err)
	}
	r.ledger = f
	return nil
}

func (r *Registry) note(lines string) error {
	if lines == "" || r.ledger == nil {
		return nil
	}
	n, err := r.ledger.WriteString(lines)
	if err != nil {
		r.ledger.Truncate(int64(r.size)) // half a line would spoil the next
		return fmt.Errorf("stubs: %w", err)
	}
	r.size += n
	return nil
}

// compact begins a new ledger where the old one has become long. The caller
// holds the lock.
func (r *Registry) compact() error {
	if r.size < maxLedger {
		return nil
	}
	old := r.ledger
	r.ledger, r.size = nil, 0
	err := r.open()
	if err == nil {
		var all strings.Builder
		for _, h := range r.held {
			if !h.foreign {
				all.WriteString(h.line())
			}
		}
		for _, rec := range r.left {
			all.WriteString(rec.line())
		}
		err = r.note(all.String())
	}
	if err != nil {
		if r.ledger != nil {
			os.Remove(r.ledger.Name())
			r.ledger.Close()
		}
		r.ledger = old
		return err
	}
	os.Remove(old.Name())
	return old.Close()
}

// maxLedger is how long a ledger can become, in bytes: one whose process always
// has commands running is never empty.
const maxLedger = 256 << 10

// patience is how long the lock may be held by others, each of whom needs it for
// a millisecond: one that is stopped in the middle must not stop all.
const patience = 10 * time.Second

// lock keeps all others of this user from creating and removing stubs.
func (r *Registry) lock(ctx context.Context) (release func(), err error) {
	// What a ledger says is removed, so nobody else may write one.
	if err := hostpath.MakePrivate(r.dir, 0o700); err != nil {
		return nil, fmt.Errorf("stubs: %w", err)
	}
	name := filepath.Join(r.dir, lockName)
	fd, err := hostpath.Openat(unix.AT_FDCWD, name, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("stubs: %w", &os.PathError{Op: "open", Path: name, Err: err})
	}
	if err := lockWithin(ctx, fd, unix.LOCK_EX, patience); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("stubs: %s: %w", name, err)
	}
	return func() { hostpath.Unlock(fd) }, nil
}
