package stubs

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// A Registry holds stubs for one process. It is safe for concurrent use.
type Registry struct {
	mu    sync.Mutex
	stubs map[string]*heldStub
}

// New makes a Registry that holds nothing.
func New() *Registry { return &Registry{stubs: map[string]*heldStub{}} }

// A Hold is the set of stubs of one command.
type Hold struct {
	registry *Registry
	paths    []string        // its stubs, parents first
	above    map[string]bool // directories that exist, and are not stubs
	// Unheld are paths that do not exist and that Hold could not create or claim, with the reason.
	Unheld map[string]error
}

// Hold makes sure that each path exists until Release. Where nothing exists, it creates a stub and
// the missing directories above it. It leaves anything else alone.
func (r *Registry) Hold(ctx context.Context, wanted []Stub) *Hold {
	h := &Hold{registry: r, above: map[string]bool{}, Unheld: map[string]error{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, s := range wanted {
		if err := r.hold(ctx, h, s); err != nil {
			h.Unheld[s.Path] = err
			if errors.Is(err, unix.EWOULDBLOCK) {
				cancel(err) // a command can lock hundreds: wait for one
			}
		}
	}
	return h
}

// hold adds to h the stub for s, and one for each missing directory above it. The directories come
// first: a process that removes a stub takes unheld files in it for somebody's work.
func (r *Registry) hold(ctx context.Context, h *Hold, s Stub) error {
	if s.InStub && !slices.Contains(h.paths, filepath.Dir(s.Path)) {
		return nil
	}
	var chain []Stub
	for at := s; at.Path != "/" && !h.above[at.Path] && !slices.Contains(h.paths, at.Path); at = (Stub{Path: filepath.Dir(at.Path)}) {
		if st, err := hostpath.Lstat(at.Path); err == nil {
			isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
			if !marked(&st) && (at.Path != s.Path || !fresh(&st)) || isDir && pathHoldsWork(at.Path) {
				h.above[at.Path] = isDir
				break // it exists, and is not a stub
			}
		}
		chain = append(chain, at)
	}
	for _, at := range slices.Backward(chain) {
		if err := r.holdOne(ctx, h, at); err != nil {
			return err
		}
	}
	return nil
}

func (r *Registry) holdOne(ctx context.Context, h *Hold, s Stub) (err error) {
	const tries = 100 // others make and remove the same stub, but nobody does so forever
	for range tries {
		if mine := r.stubs[s.Path]; mine != nil && mine.liesAt(unix.AT_FDCWD, s.Path) {
			mine.holds++
			h.paths = append(h.paths, s.Path)
			return nil
		}
		var dir int
		if dir, err = openDir(filepath.Dir(s.Path)); err != nil {
			return err
		}
		var one *heldStub
		if one, err = r.tryOne(ctx, s, dir); err == nil && one != nil {
			one.dir = dir
			r.add(h, one)
			return nil
		}
		unix.Close(dir)
		if !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ENOENT) { // another process was faster
			return err
		}
	}
	return err
}

// tryOne claims or creates the stub s in its directory. It returns nil if something else exists there.
func (r *Registry) tryOne(ctx context.Context, s Stub, dir int) (*heldStub, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, filepath.Base(s.Path), &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == unix.ENOENT:
		return create(ctx, s, dir)
	case err != nil:
		return nil, err
	case !marked(&st) && !fresh(&st):
		return nil, nil
	}
	one, err := claim(ctx, s, dir)
	if err != nil && !errors.Is(err, unix.ENOENT) && !marked(&st) {
		return nil, nil // nobody will remove it
	}
	return one, err
}

// add adds a claimed stub to h.
func (r *Registry) add(h *Hold, one *heldStub) {
	one.holds = 1
	if old := r.stubs[one.Path]; old != nil {
		// Somebody has removed a stub that others here still need.
		one.holds += old.holds
		old.close()
	}
	r.stubs[one.Path] = one
	h.paths = append(h.paths, one.Path)
}

// Release gives up the stubs of Hold, and removes those that nobody else holds. A second call, or
// one of nil, does nothing.
func (h *Hold) Release() {
	if h == nil || len(h.paths) == 0 {
		return
	}
	r := h.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	var last []string
	for _, p := range h.paths {
		if mine := r.stubs[p]; mine != nil {
			if mine.holds--; mine.holds == 0 {
				last = append(last, p)
			}
		}
	}
	h.paths = nil
	r.remove(last)
}

// remove removes the stubs that nobody in this process holds.
func (r *Registry) remove(list []string) {
	slices.Sort(list)
	for _, p := range slices.Backward(list) { // deeper ones first
		r.stubs[p].remove()
		delete(r.stubs, p)
	}
}

// Close gives up all remaining stubs. Those that it cannot remove stay for the next process that
// needs the path. Nil holds nothing.
func (r *Registry) Close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(slices.Collect(maps.Keys(r.stubs)))
}
