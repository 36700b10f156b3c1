//go:build unix

package facts

import (
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/sbxhost/sbxhost/glob"
	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/scan"
)

// scanners keeps what is known of trees from one command to the next. The zero
// value is empty; nil remembers nothing.
type scanners struct {
	index *scan.Index // of former processes; may be nil
	mu    sync.Mutex
	known map[string]*scan.Scanner
}

// scanner gives the Scanner for those rules. key stands for all else that q asks.
func (s *scanners) scanner(rules []view.Rule, key string, q scan.Query) *scan.Scanner {
	list := make([]*glob.Pattern, len(rules))
	for i, rule := range rules {
		list[i] = rule.Pattern
		key += "\x00" + rule.Pattern.String()
	}
	q.Set = glob.NewSet(list...)
	if s == nil {
		return scan.New(q)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[key] == nil {
		if s.known == nil || len(s.known) >= maxScanners {
			s.known = map[string]*scan.Scanner{}
		}
		s.known[key] = s.index.New(key, q)
	}
	return s.known[key]
}

// maxScanners bounds what is remembered: symlinks in patterns can lead elsewhere
// for every command.
const maxScanners = 64

// treeIndex is what former processes have found in the trees of a workspace. It is kept
// for so many workspaces; those that share a file forget one another.
func (c *Caller) treeIndex(root string) *scan.Index {
	const files = 64
	dir := c.StateDir()
	info, err := os.Lstat(dir)
	if err != nil {
		return nil
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return nil // with the HOME of a user, root keeps nothing there
	}
	hash := fnv.New32a()
	io.WriteString(hash, root)
	return scan.NewIndex(filepath.Join(dir, fmt.Sprintf("trees%02d", hash.Sum32()%files)))
}
