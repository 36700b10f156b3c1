package stubs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Stub is a path to hold: an empty directory, or a file with what is
// harmless there.
type Stub struct {
	Path    string // absolute, clean, no symlinks
	File    bool
	Content string // of a file
}

// A Registry holds stubs for one process. It is safe for concurrent use.
// Nothing is done before the first Hold.
type Registry struct {
	dir string

	mu     sync.Mutex
	ledger *os.File // locked; nil before the first Hold
	size   int      // of the ledger
	held   map[string]*held
}

type held struct {
	record
	holds int
}

// New makes a Registry whose ledgers are in dir, an absolute path. The directory
// is created with the first Hold and must be the user's alone.
func New(dir string) *Registry {
	return &Registry{dir: dir, held: map[string]*held{}}
}

// A Hold is what one command needs.
type Hold struct {
	registry *Registry
	paths    []string // stubs that it holds, parents first
	// Unheld are paths that do not exist and could not be created, with the
	// reason.
	Unheld map[string]error
}

// Hold makes sure that each path exists until Release: where there is nothing
// it creates a stub, and the directories above it that are missing. What exists
// and is nobody's stub is left alone.
func (r *Registry) Hold(wanted []Stub) (*Hold, error) {
	h := &Hold{registry: r, Unheld: map[string]error{}}
	wanted = slices.DeleteFunc(slices.Clone(wanted), func(s Stub) bool { return !s.couldBe() })
	if len(wanted) == 0 {
		return h, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	unlock, err := r.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := r.open(); err != nil {
		return nil, err
	}
	if err := r.compact(); err != nil {
		return nil, err
	}
	others, err := r.others()
	if err != nil {
		return nil, err
	}
	var missing []Stub
	for _, s := range wanted {
		missing = append(missing, r.want(h, s, others)...)
	}
	if err := r.make(h, missing); err != nil {
		r.release(h, others)
		return nil, err
	}
	// What dead processes have left and nobody wants any more.
	r.sweep(others)
	return h, nil
}

// couldBe reports whether nothing or something like a stub is at the path,
// without looking into the ledgers. Another may be removing it at this moment:
// only what is certain counts.
func (s *Stub) couldBe() bool {
	info, err := os.Lstat(s.Path)
	switch {
	case err != nil:
		return true
	case info.IsDir():
		f, err := os.Open(s.Path)
		if err != nil {
			return true
		}
		defer f.Close()
		names, _ := f.Readdirnames(1)
		return len(names) == 0
	}
	return info.Mode().IsRegular() && info.Size() <= maxContent
}

// maxContent is more than the content of any stub.
const maxContent = 64

// want adds to h what there is of s, and above it, by way of stubs, and gives
// what has to be made.
func (r *Registry) want(h *Hold, s Stub, others []*other) (missing []Stub) {
	for at := s; at.Path != "/" && !slices.Contains(h.paths, at.Path); at = (Stub{Path: filepath.Dir(at.Path)}) {
		var st unix.Stat_t
		if err := unix.Lstat(at.Path, &st); err != nil {
			missing = append(missing, at)
			continue
		}
		if mine := r.held[at.Path]; mine != nil && mine.same(&st) {
			mine.holds++
			h.paths = append(h.paths, at.Path)
			continue
		}
		// Another process's, alive or dead, is this one's, too, from now on.
		i := slices.IndexFunc(others, func(o *other) bool { rec, ok := o.records[at.Path]; return ok && rec.same(&st) })
		if i < 0 {
			break // it lies there by itself
		}
		rec := others[i].records[at.Path]
		rec.dev, rec.ino = uint64(st.Dev), st.Ino
		if r.note(rec.line()) != nil {
			break
		}
		r.held[at.Path] = &held{record: rec, holds: 1}
		h.paths = append(h.paths, at.Path)
	}
	slices.Reverse(missing)
	return missing
}

// make creates what is missing, parents first. Its intention is in the ledger
// before the first of them exists.
func (r *Registry) make(h *Hold, missing []Stub) error {
	slices.SortStableFunc(missing, func(a, b Stub) int { return strings.Compare(a.Path, b.Path) })
	missing = slices.CompactFunc(missing, func(a, b Stub) bool { return a.Path == b.Path })
	if len(missing) == 0 {
		return nil
	}
	var plan strings.Builder
	for _, s := range missing {
		rec := record{path: s.Path, dir: !s.File, content: s.Content}
		plan.WriteString(rec.line())
	}
	if err := r.note(plan.String()); err != nil {
		return err
	}
	var done strings.Builder
	for _, s := range missing {
		rec, err := create(s)
		switch {
		case errors.Is(err, unix.EEXIST):
			done.WriteString(gone(s.Path)) // somebody was faster: it is his
			continue
		case err != nil:
			done.WriteString(gone(s.Path))
			h.Unheld[s.Path] = err
			continue
		}
		done.WriteString(rec.line())
		r.held[s.Path] = &held{record: rec, holds: 1}
		h.paths = append(h.paths, s.Path)
	}
	return r.note(done.String())
}

// Release gives up what Hold has given, and removes what nobody else holds. It
// is idempotent, and nil has nothing to release.
func (h *Hold) Release() error {
	if h == nil || len(h.paths) == 0 {
		return nil
	}
	r := h.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ledger == nil {
		return nil // closed, and given up by that
	}
	last := slices.ContainsFunc(h.paths, func(p string) bool { return r.held[p] != nil && r.held[p].holds == 1 })
	if !last {
		r.release(h, nil)
		return nil
	}
	unlock, err := r.lock()
	if err != nil {
		return err
	}
	defer unlock()
	others, err := r.others()
	if err != nil {
		return err
	}
	r.release(h, others)
	return nil
}

// release counts down, and removes what others do not have. The caller holds
// both locks, or knows that nothing comes to be removed.
func (r *Registry) release(h *Hold, others []*other) {
	// What lies deeper goes first.
	slices.SortFunc(h.paths, func(a, b string) int { return strings.Compare(b, a) })
	var done strings.Builder
	for _, p := range h.paths {
		mine := r.held[p]
		if mine == nil {
			continue
		}
		if mine.holds--; mine.holds > 0 {
			continue
		}
		delete(r.held, p)
		if !slices.ContainsFunc(others, func(o *other) bool { _, ok := o.records[p]; return ok && !o.dead }) {
			mine.remove()
		}
		done.WriteString(gone(p))
	}
	h.paths = nil
	if len(r.held) == 0 && r.ledger.Truncate(0) == nil {
		r.size = 0
	} else {
		r.note(done.String())
	}
	r.sweep(others)
}

// Sweep removes what processes that were killed have left.
func (r *Registry) Sweep() error {
	if _, err := os.Lstat(r.dir); err != nil {
		return nil // nobody has held anything
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	unlock, err := r.lock()
	if err != nil {
		return err
	}
	defer unlock()
	others, err := r.others()
	if err != nil {
		return err
	}
	r.sweep(others)
	return nil
}

// Close gives up all that is still held, and the ledger. What it cannot remove is
// left for the next sweep.
func (r *Registry) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ledger == nil {
		return nil
	}
	var err error
	if len(r.held) > 0 {
		err = r.giveUp()
	}
	if err == nil {
		os.Remove(r.ledger.Name())
	}
	err = errors.Join(err, r.ledger.Close())
	r.ledger, r.held = nil, map[string]*held{}
	return err
}

// giveUp releases everything.
func (r *Registry) giveUp() error {
	unlock, err := r.lock()
	if err != nil {
		return err
	}
	defer unlock()
	others, err := r.others()
	if err != nil {
		return err
	}
	all := &Hold{registry: r}
	for p, h := range r.held {
		h.holds = 1
		all.paths = append(all.paths, p)
	}
	r.release(all, others)
	return nil
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
	defer f.Close()
	dead := flock(f, unix.LOCK_EX|unix.LOCK_NB) == nil
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	return &other{name, parse(string(text)), dead}, nil
}

// sweep removes what is in the ledgers of the dead alone, and those ledgers.
func (r *Registry) sweep(others []*other) {
	for _, o := range others {
		if !o.dead {
			continue
		}
		var paths []string
		for p := range o.records {
			paths = append(paths, p)
		}
		slices.SortFunc(paths, func(a, b string) int { return strings.Compare(b, a) })
		for _, p := range paths {
			wanted := r.held[p] != nil || slices.ContainsFunc(others, func(x *other) bool { _, ok := x.records[p]; return ok && !x.dead })
			if rec := o.records[p]; !wanted {
				rec.remove()
			}
		}
		os.Remove(o.name)
	}
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
	if err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		os.Remove(f.Name())
		return fmt.Errorf("stubs: %s: %w", f.Name(), err)
	}
	r.ledger = f
	return nil
}

func (r *Registry) note(lines string) error {
	if lines == "" {
		return nil
	}
	n, err := r.ledger.WriteString(lines)
	if err != nil {
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
			all.WriteString(h.line())
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
func (r *Registry) lock() (release func(), err error) {
	if err := r.private(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(r.dir, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("stubs: %w", err)
	}
	if flock(f, unix.LOCK_EX|unix.LOCK_NB) == nil {
		return func() { unlock(f) }, nil
	}
	locked := make(chan error, 1)
	go func() { locked <- flock(f, unix.LOCK_EX) }()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err = <-locked:
	case <-timer.C:
		go func() {
			<-locked
			unlock(f)
		}()
		return nil, fmt.Errorf("stubs: %s has been locked for %v: %w", f.Name(), patience, os.ErrDeadlineExceeded)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("stubs: %s: %w", f.Name(), err)
	}
	return func() { unlock(f) }, nil
}

// unlock does not leave it to Close: a process that is being forked off at this
// moment has the file, too, until it executes its program.
func unlock(f *os.File) {
	flock(f, unix.LOCK_UN)
	f.Close()
}

// private makes the directory, and refuses one that others could write: what a
// ledger says is removed.
func (r *Registry) private() error {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return fmt.Errorf("stubs: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(r.dir, &st); err != nil {
		return fmt.Errorf("stubs: %w", &os.PathError{Op: "lstat", Path: r.dir, Err: err})
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("stubs: %s is not a directory that belongs to you alone; remove it: %w", r.dir, os.ErrPermission)
	}
	return nil
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}
