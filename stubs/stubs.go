package stubs

import (
	"context"
	"errors"
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
	ledger *os.File // locked; nil before the first Hold, and where there can be none
	size   int      // of the ledger
	held   map[string]*held
	left   map[string]record // own stubs that others had a claim to when they were given up
	// accounted says that the ledgers of others are known.
	accounted bool
	cache     *cache // nil without the account, and where there can be none
	misses    int    // of the cache, since it was last trimmed
}

type held struct {
	record
	holds int
	fd    int // a claim; negative where files cannot be locked
	// foreign says that no ledger of this user's has it: it is a stub if it has
	// the mark when it is given up.
	foreign bool
}

// New makes a Registry whose ledgers are in dir, an absolute path. The directory
// is created with the first Hold and must be the user's alone. Empty means that
// there are no ledgers.
func New(dir string) *Registry {
	return &Registry{dir: dir, held: map[string]*held{}, left: map[string]record{}}
}

// A Hold is what one command needs.
type Hold struct {
	registry *Registry
	paths    []string // stubs that it holds, parents first
	suspends *cache   // see SuspendCache
	// Unheld are paths that do not exist and could not be created, or claimed,
	// with the reason.
	Unheld map[string]error
	// Unaccounted is why there is no ledger; nil where there is one.
	Unaccounted error
}

// Hold makes sure that each path exists until Release: where there is nothing
// it creates a stub, and the directories above it that are missing. What exists
// and is nobody's stub is left alone. Where ctx ends while another process has the
// ledgers locked, nothing is held.
func (r *Registry) Hold(ctx context.Context, wanted []Stub) *Hold {
	h := &Hold{registry: r, Unheld: map[string]error{}}
	wanted = slices.DeleteFunc(slices.Clone(wanted), func(s Stub) bool { return !s.couldBe() })
	if len(wanted) == 0 {
		return h
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	others, unlock, err := r.account(ctx)
	defer unlock()
	if h.Unaccounted = err; ctx.Err() != nil {
		return h
	}
	var missing []Stub
	for _, s := range wanted {
		missing = append(missing, r.want(h, s, others)...)
	}
	r.make(h, missing, others)
	// What dead processes have left and nobody wants any more.
	r.sweep(others)
	return h
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
// what has to be made. What is above comes first: whoever removes a stub with
// nobody's claim takes what is in it for somebody's work.
func (r *Registry) want(h *Hold, s Stub, others []*other) (missing []Stub) {
	var chain []Stub
	for at := s; at.Path != "/" && !slices.Contains(h.paths, at.Path); at = (Stub{Path: filepath.Dir(at.Path)}) {
		var st unix.Stat_t
		if unix.Lstat(at.Path, &st) == nil && !r.candidate(at, &st, others) && (at.Path != s.Path || !fresh(&st)) {
			break // it lies there by itself
		}
		chain = append(chain, at)
	}
	for _, at := range slices.Backward(chain) {
		if !r.take(h, at, others) {
			missing = append(missing, at)
		}
	}
	return missing
}

// candidate reports whether what lies there is a stub by all that is known.
func (r *Registry) candidate(at Stub, st *unix.Stat_t, others []*other) bool {
	if mine := r.held[at.Path]; mine != nil && mine.same(st) || marked(st) {
		return true
	}
	_, known := r.known(at.Path, st, others)
	return known
}

// take adds to h what lies at a place, if it is a stub or may be becoming one,
// and reports whether anything does.
func (r *Registry) take(h *Hold, at Stub, others []*other) (there bool) {
	var st unix.Stat_t
	if unix.Lstat(at.Path, &st) != nil {
		return false
	}
	if mine := r.held[at.Path]; mine != nil && mine.same(&st) {
		mine.holds++
		h.paths = append(h.paths, at.Path)
		return true
	}
	rec, known := r.known(at.Path, &st, others)
	if !known {
		if !marked(&st) && !fresh(&st) {
			return true
		}
		rec = record{path: at.Path, dir: st.Mode&unix.S_IFMT == unix.S_IFDIR, content: at.Content}
	}
	fd, now, err := claim(at.Path)
	switch {
	case errors.Is(err, unix.ENOENT):
		return false
	case errors.Is(err, unix.EWOULDBLOCK) && (known || marked(&st)):
		// Whoever gives it up now cannot know that it is needed here.
		h.Unheld[at.Path] = err
		return true
	case err != nil && !known:
		return true // nobody could have claimed it to make it a stub
	case err != nil:
		now = st
	case !rec.same(&now):
		unclaim(fd)
		return false // another look will tell
	}
	rec.dev, rec.ino = uint64(now.Dev), now.Ino
	r.hold(h, rec, fd, !known)
	return true
}

// fresh reports whether something could be a stub that is being made, and has no
// mark yet.
func fresh(st *unix.Stat_t) bool {
	return time.Since(time.Unix(int64(st.Ctim.Sec), int64(st.Ctim.Nsec))).Abs() < time.Minute
}

// known gives the stub that this user has made there, in this process or another
// one, alive or dead: it is this one's, too, from now on.
func (r *Registry) known(path string, st *unix.Stat_t, others []*other) (record, bool) {
	if rec, ok := r.left[path]; ok && rec.same(st) {
		return rec, true
	}
	for _, o := range others {
		if rec, ok := o.records[path]; ok && rec.same(st) {
			return rec, true
		}
	}
	return record{}, false
}

// hold adds what was claimed to h.
func (r *Registry) hold(h *Hold, rec record, fd int, foreign bool) {
	holds := 1
	if old := r.held[rec.path]; old != nil {
		// Somebody has removed what others here still need.
		holds += old.holds
		unclaim(old.fd)
	}
	delete(r.left, rec.path)
	r.held[rec.path] = &held{record: rec, holds: holds, fd: fd, foreign: foreign}
	h.paths = append(h.paths, rec.path)
	if !foreign {
		r.note(rec.line())
	}
}

// make creates what is missing, parents first. Its intention is in the ledger
// before the first of them exists.
func (r *Registry) make(h *Hold, missing []Stub, others []*other) {
	slices.SortStableFunc(missing, func(a, b Stub) int { return strings.Compare(a.Path, b.Path) })
	missing = slices.CompactFunc(missing, func(a, b Stub) bool { return a.Path == b.Path })
	if len(missing) == 0 {
		return
	}
	var plan strings.Builder
	for _, s := range missing {
		rec := record{path: s.Path, dir: !s.File, content: s.Content}
		plan.WriteString(rec.line())
	}
	if err := r.note(plan.String()); err != nil {
		h.Unaccounted = err
	}
	for _, s := range missing {
		if !slices.Contains(h.paths, s.Path) {
			r.makeOne(h, s, others)
		}
	}
}

func (r *Registry) makeOne(h *Hold, s Stub, others []*other) {
	var rec record
	err, fd := error(unix.EEXIST), -1
	const often = 20 // others make and remove the same
	for range often {
		rec, fd, err = create(s, r.cache)
		if err == nil && fd < 0 && h.Unaccounted != nil {
			rec.remove(-1, nil)
			err = errNoLocks
		}
		switch {
		case err == nil:
			r.hold(h, rec, fd, false)
			return
		case errors.Is(err, unix.ENOENT) && dirExists(filepath.Dir(s.Path)):
			continue // it was there, and another has removed it
		case errors.Is(err, unix.EEXIST):
			// Somebody was faster: it may be a stub of his.
			if len(r.want(h, s, others)) == 0 {
				r.note(r.goneUnlessHeld(s.Path))
				return
			}
			continue
		}
		break
	}
	if rec.path != "" {
		r.left[rec.path] = rec // it is there
	} else {
		r.note(gone(s.Path))
	}
	if cause := h.Unheld[filepath.Dir(s.Path)]; cause != nil {
		err = cause
	}
	if !errors.Is(err, unix.EEXIST) { // something that is no stub
		h.Unheld[s.Path] = err
	}
}

func dirExists(p string) bool {
	fd, err := openDir(p)
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}

// goneUnlessHeld takes back the intention to make a stub, if nothing has come
// of it.
func (r *Registry) goneUnlessHeld(path string) string {
	if mine := r.held[path]; mine != nil && !mine.foreign {
		return ""
	}
	return gone(path)
}

// Release gives up what Hold has given, and removes what nobody else holds. It
// is idempotent, and nil has nothing to release.
func (h *Hold) Release() {
	if h == nil || len(h.paths) == 0 && h.suspends == nil {
		return
	}
	r := h.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	h.suspends = h.suspends.close()
	last := slices.ContainsFunc(h.paths, func(p string) bool { return r.held[p] != nil && r.held[p].holds == 1 })
	if !last {
		r.release(h, nil)
		return
	}
	others, unlock, _ := r.account(context.Background())
	defer unlock()
	r.release(h, others)
}

// release counts down, and removes what others do not have. The caller has the
// account, or knows that nothing comes to be removed.
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
		if mine.foreign {
			// Without the mark it lies there by itself.
			if mine.marked(mine.fd) {
				mine.remove(mine.fd, nil)
			} else {
				unclaim(mine.fd)
			}
			continue
		}
		if slices.ContainsFunc(others, func(o *other) bool { _, ok := o.records[p]; return ok && !o.dead }) {
			unclaim(mine.fd)
		} else if mine.fd < 0 && !r.accounted || mine.remove(mine.fd, r.cache) {
			r.left[p] = mine.record
			continue
		}
		done.WriteString(gone(p))
	}
	h.paths = nil
	if r.ledger != nil && len(r.held)+len(r.left) == 0 && r.ledger.Truncate(0) == nil {
		r.size = 0
	} else {
		r.note(done.String())
	}
	r.sweep(others)
	r.cache.trim()
}

// Close gives up all that is still held, and the ledger. What it cannot remove is
// left for the next sweep.
func (r *Registry) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	unlock := func() {}
	defer func() { unlock() }()
	for tries := 0; len(r.held)+len(r.left) > 0 && tries < 5; tries++ {
		if tries > 0 {
			time.Sleep(20 * time.Millisecond) // others in this process have used up its descriptors, perhaps
		}
		var others []*other
		unlock()
		others, unlock, err = r.account(context.Background())
		all := &Hold{registry: r}
		for p, h := range r.held {
			h.holds = 1
			all.paths = append(all.paths, p)
		}
		r.release(all, others)
		if len(r.left) > 0 && r.accounted {
			// What could not be opened may be, with one descriptor more.
			r.cache = r.cache.close()
			r.sweep(others)
		}
	}
	if r.ledger == nil {
		return nil
	}
	if err == nil && len(r.left) == 0 {
		os.Remove(r.ledger.Name())
	}
	err = errors.Join(err, closeLocked(r.ledger))
	r.ledger, r.held, r.left = nil, map[string]*held{}, map[string]record{}
	return err
}
