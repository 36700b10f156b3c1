package docker

import (
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// pins keep in place what lies above a path that is hidden or read-only in a
// writable mount. A command could otherwise rename a directory above it, and
// the next command's masks, which go by names, would hide something else. A
// directory that is bound onto itself cannot be renamed or removed.
func pins(mounts []shared.Entry, masks []shared.Mask) []shared.Entry {
	taken := map[string]bool{}
	for _, m := range mounts {
		taken[m.Path] = true
	}
	var out []shared.Entry
	pin := func(target, origin string) {
		under := above(mounts, target)
		if under == nil || under.Access != shared.ReadWrite {
			return
		}
		for dir := path.Dir(target); dir != under.Path; dir = path.Dir(dir) {
			source := under.Source + strings.TrimPrefix(dir, under.Path)
			// What is not there, or not a directory, needs no pin: what would lie
			// below it is not there either.
			if info, err := os.Lstat(source); err != nil || info.Mode()&fs.ModeType != fs.ModeDir || taken[dir] {
				continue
			}
			taken[dir] = true
			out = append(out, shared.Entry{Source: source, Path: dir, Access: shared.ReadWrite, Why: "keeps its place: " + origin})
		}
	}
	for _, m := range masks {
		pin(m.Path, m.Origin)
	}
	for _, m := range mounts {
		if m.Access == shared.ReadOnly {
			pin(m.Path, m.Why)
		}
	}
	return out
}

// above gives the mount that p lies beneath.
func above(mounts []shared.Entry, p string) *shared.Entry {
	var under *shared.Entry
	for i := range mounts {
		m := &mounts[i]
		if m.Path != p && within(p, m.Path) && (under == nil || len(m.Path) > len(under.Path)) {
			under = m
		}
	}
	return under
}
