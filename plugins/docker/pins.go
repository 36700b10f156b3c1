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
func pins(mounts []shared.Mount, masks []shared.Mask) []shared.Mount {
	taken := map[string]bool{}
	for _, m := range mounts {
		taken[m.Destination] = true
	}
	var out []shared.Mount
	pin := func(target, origin string) {
		under := above(mounts, target)
		if under == nil || under.Kind != shared.MountReadWrite {
			return
		}
		for dir := path.Dir(target); dir != under.Destination; dir = path.Dir(dir) {
			source := under.Source + strings.TrimPrefix(dir, under.Destination)
			// What is not there, or not a directory, needs no pin: what would lie
			// below it is not there either.
			if info, err := os.Lstat(source); err != nil || info.Mode()&fs.ModeType != fs.ModeDir || taken[dir] {
				continue
			}
			taken[dir] = true
			out = append(out, shared.Mount{Source: source, Destination: dir, Kind: shared.MountReadWrite, Origin: "keeps its place: " + origin})
		}
	}
	for _, m := range masks {
		pin(m.Path, m.Origin)
	}
	for _, m := range mounts {
		if m.Kind == shared.MountReadOnly {
			pin(m.Destination, m.Origin)
		}
	}
	return out
}

// above gives the mount that p lies beneath.
func above(mounts []shared.Mount, p string) *shared.Mount {
	var under *shared.Mount
	for i := range mounts {
		m := &mounts[i]
		if m.Destination != p && within(p, m.Destination) && (under == nil || len(m.Destination) > len(under.Destination)) {
			under = m
		}
	}
	return under
}
