//go:build unix

package scan

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sbxhost/sbxhost/internal/glob"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
)

// maxEntries is how many names the trees of one scan may have. A first scan of that size takes a
// few seconds.
const maxEntries = 4_000_000

// maxPath is the longest path that a scan searches, in bytes. Linux takes 4096 bytes; the rest is
// for a longer path inside the sandbox.
const maxPath = 3072

// A Query says what a scan searches for.
type Query struct {
	// Set holds patterns of absolute paths. The scan does not report paths beneath a match
	// separately.
	Set *glob.Set
	// Name reports whether the scan reports a file of this name, in any directory, as
	// SensitiveName. Nil reports none.
	Name func(name string) bool
	// MatchName reports whether the scan reports a name, in any directory, as NameMatch, besides
	// other reasons. Nil reports none.
	MatchName func(name string) bool
	// Sockets and Repositories say whether the scan reports these.
	Sockets      bool
	Repositories bool
}

// A Scanner scans the same trees repeatedly for one Query. It is safe for concurrent use.
type Scanner struct {
	query Query
	roots []string
	limit int64
	now   func() time.Time

	mu   sync.Mutex
	lead time.Duration // see clockLead; after a change of it, the Scanner forgets everything
	root *node         // has the remembered state of the roots
}

// New makes a Scanner that searches the directories in roots. They must be absolute, resolved, and not
// nested in one another. A root may be missing, or a file, which the scan can report itself.
func New(q Query, roots ...string) *Scanner {
	return &Scanner{query: q, roots: roots, limit: maxEntries, now: time.Now, lead: clockLead()}
}

// Scan searches the trees.
func (s *Scanner) Scan() ([]Found, error) { return s.ScanTo(0) }

// ScanTo is Scan to a limited depth below each root. It does not look at deeper directories: it
// reports them as an earlier Scan found them, or not at all. Zero means MaxDepth, and then it
// reports the directories that are too deep.
func (s *Scanner) ScanTo(depth int) ([]Found, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lead := clockLead(); lead-s.lead >= clockStep || s.lead-lead >= clockStep {
		s.lead, s.root = lead, nil
	}
	if s.root == nil {
		s.root = &node{}
		for _, root := range s.roots {
			n := &node{name: root}
			n.state, n.hide = s.query.Set.At(root)
			s.root.dirs = append(s.root.dirs, n)
		}
	}
	w := &walk{Scanner: s, depth: depth, tokens: make(chan struct{}, runtime.GOMAXPROCS(0)-1)}
	for _, n := range s.root.dirs {
		w.refresh(n, n.name, 0)
	}
	if err := w.failed.Load(); err != nil {
		return nil, *err
	}
	return w.collect(), nil
}

// walk is the state of one scan.
type walk struct {
	*Scanner
	depth  int           // see ScanTo
	tokens chan struct{} // one for each goroutine besides the first
	names  atomic.Int64  // number of names, remembered or read now
	failed atomic.Pointer[error]
}

// refresh updates n and everything beneath it. n is at path, depth directories below a root. An
// error ends the walk, and is in failed.
func (w *walk) refresh(n *node, path string, depth int) {
	if err := w.renew(n, path, depth); err != nil {
		w.failed.CompareAndSwap(nil, &err)
	}
	if w.failed.Load() != nil || depth+1 == w.depth {
		return
	}
	var others sync.WaitGroup
	for _, child := range n.dirs {
		at := paths.Join(path, child.name)
		select {
		case w.tokens <- struct{}{}:
			others.Go(func() {
				defer func() { <-w.tokens }()
				w.refresh(child, at, depth+1)
			})
		default:
			w.refresh(child, at, depth+1)
		}
	}
	others.Wait()
}

// renew updates the content of n itself.
func (w *walk) renew(n *node, path string, depth int) error {
	if depth > MaxDepth || len(path) > maxPath {
		*n = node{name: n.name, state: n.state, hide: n.hide}
		n.reportSelf(TooDeep, 0)
		return nil
	}
	last := depth+1 == w.depth
	if !n.timesReliable || n.shallow && !last || identify(path) != n.id {
		if err := w.read(n, path, last); err != nil {
			return err
		}
	}
	if w.names.Add(int64(n.names)) > w.limit {
		return fmt.Errorf("%s: more than %d: too many files to search", hostpath.Quote(path), w.limit)
	}
	return nil
}
