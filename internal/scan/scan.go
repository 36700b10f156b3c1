//go:build unix

package scan

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sbxhost/sbxhost/internal/glob"
	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// maxEntries is how many names the trees of one scan may have. At that size a
// first scan takes a few seconds.
const maxEntries = 4_000_000

// maxPath bounds the paths that are searched: what is found must be named by one,
// with room for a longer place inside, and Linux takes 4096 bytes.
const maxPath = 3072

// ErrTooLarge is wrapped by the error for trees with more than maxEntries names.
var ErrTooLarge = errors.New("too many files to search")

// A Query is what a scan looks for.
type Query struct {
	// Set holds patterns of absolute paths. What lies beneath a match is not
	// reported by itself. Nil matches nothing.
	Set *glob.Set
	// Name says of a name in any directory whether a file that has it is
	// reported, as Named. Nil reports none.
	Name func(name string) bool
	// MatchName says of a name in any directory whether what has it is reported, as
	// MatchName, besides what else it is reported as. Nil reports none.
	MatchName func(name string) bool
	// Sockets and Repositories say whether those are reported.
	Sockets      bool
	Repositories bool
}

// A Scanner scans the same trees again and again for one Query. It is safe for
// concurrent use.
type Scanner struct {
	query Query
	limit int64
	now   func() time.Time

	mu    sync.Mutex
	lead  int64 // see clockLead; what was seen before it changed is forgotten
	trees map[string]*tree
}

// A tree is what is remembered of one root.
type tree struct {
	mu     sync.Mutex
	root   *node
	result *Result
}

// New makes a Scanner.
func New(q Query) *Scanner {
	if q.Set == nil {
		q.Set = glob.NewSet()
	}
	return &Scanner{query: q, limit: maxEntries, now: time.Now, lead: clockLead(), trees: map[string]*tree{}}
}

// Scan looks through the directories in roots, which are absolute and resolved,
// none within another. One that is no directory, or not there, has nothing.
func (s *Scanner) Scan(roots ...string) (*Result, error) { return s.ScanTo(0, roots...) }

// ScanTo is Scan of names that lie no deeper in a root. What is deeper is not looked at: it is
// reported as an earlier Scan has found it, or not at all. Zero is what MaxDepth directories
// have, and what is deeper is reported itself.
func (s *Scanner) ScanTo(depth int, roots ...string) (*Result, error) {
	key := strings.Join(roots, "\x00")
	t := s.tree(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.root == nil {
		t.root = &node{}
		for _, root := range roots {
			n := &node{name: root}
			n.state, n.hide = stateAt(s.query.Set, root)
			t.root.dirs = append(t.root.dirs, n)
		}
	}
	w := &walk{query: &s.query, depth: depth, limit: s.limit, now: s.now, tokens: make(chan struct{}, runtime.GOMAXPROCS(0))}
	for _, n := range t.root.dirs {
		w.refresh(n, n.name, 0)
	}
	if err := w.failed.Load(); err != nil {
		return nil, *err
	}
	// With nothing read anew, the answer is the last one - unless it went through
	// links, whose targets can change by themselves.
	if t.result != nil && !w.changed.Load() && !w.followed.Load() {
		return t.result, nil
	}
	result, err := w.collect(t.root, roots)
	if err != nil {
		return nil, err
	}
	t.result = result
	return result, nil
}

// tree gives what is remembered of some roots.
func (s *Scanner) tree(key string) *tree {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lead := clockLead(); lead-s.lead >= stepped || s.lead-lead >= stepped {
		s.lead, s.trees = lead, map[string]*tree{}
	}
	t := s.trees[key]
	if t == nil {
		t = &tree{}
		s.trees[key] = t
	}
	return t
}

// stateAt is where the patterns are in a directory, and 1 + the one that matches
// it or a directory above it, or 0.
func stateAt(set *glob.Set, path string) (state glob.State, hide int) {
	state = set.Start()
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if name == "" {
			continue
		}
		if m := set.Match(state, name); m.Dir >= 0 && hide == 0 {
			hide = m.Dir + 1
		}
		state = set.Next(state, name)
	}
	return state, hide
}

func (w *walk) tooLarge(at string) error {
	return fmt.Errorf("%s: more than %d: %w", hostpath.Quote(at), w.limit, ErrTooLarge)
}

// walk is the state of one scan.
type walk struct {
	query       *Query
	depth       int // see ScanTo
	limit       int64
	now         func() time.Time
	tokens      chan struct{} // as many directories are looked at together
	names       atomic.Int64  // of what is remembered and of what was read
	directories atomic.Int64  // directories
	changed     atomic.Bool   // a directory was read
	followed    atomic.Bool   // there are links to follow
	failed      atomic.Pointer[error]
}

// refresh brings n, which is at path, depth directories below a root, and all
// beneath it up to date. What fails ends the walk, and is in failed.
func (w *walk) refresh(n *node, path string, depth int) {
	if err := w.renew(n, path, depth); err != nil {
		w.failed.CompareAndSwap(nil, &err)
	}
	if w.failed.Load() != nil {
		return
	}
	if depth+1 == w.depth {
		n.size = max(n.size, 1)
		return
	}
	n.size = 1
	var others sync.WaitGroup
	for _, child := range n.dirs {
		at := join(path, child.name)
		if !w.apart(child) {
			w.refresh(child, at, depth+1)
			continue
		}
		others.Go(func() {
			defer func() { <-w.tokens }()
			w.refresh(child, at, depth+1)
		})
	}
	others.Wait()
	for _, child := range n.dirs {
		n.size += child.size
	}
}

// renew brings what n itself holds up to date.
func (w *walk) renew(n *node, path string, depth int) error {
	if depth > MaxDepth || len(path) > maxPath {
		if !n.deep {
			*n = node{name: n.name, state: n.state, hide: n.hide, deep: true}
			w.changed.Store(true)
		}
		return nil
	}
	if err := w.look(n, path, depth+1 == w.depth); err != nil {
		return err
	}
	if len(n.links) > 0 {
		w.followed.Store(true)
	}
	if w.names.Add(int64(n.names)) > w.limit {
		return w.tooLarge(path)
	}
	w.directories.Add(1)
	return nil
}

// apart reports whether a directory gets a goroutine of its own, for which it has taken a token.
func (w *walk) apart(n *node) bool {
	if n.size < worthwhile && (n.size > 0 || w.directories.Load() <= worthwhile) {
		return false
	}
	select {
	case w.tokens <- struct{}{}:
		return true
	default:
		return false
	}
}

// worthwhile is how many directories are worth a goroutine of their own: to look at one again
// takes a microsecond, and to wake a processor a hundred. One of which is not known how many are
// beneath it has one after so many others.
const worthwhile = 1000

func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}
