package host

import (
	"encoding/binary"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
)

// closed is the outermost directory above p, a path of the host without
// symlinks, that the user whom commands run as cannot search; empty where there
// is none. That user cannot mount anything beneath it either: to hide p, it is
// what has to be covered. To leave p alone would rely on that nobody opens the
// directory while a command runs.
//
// A caller whose commands run as himself is closed out of what he cannot search
// before it comes to this.
func (r *resolver) closed(p string) string {
	if r.owner == nil {
		return ""
	}
	for i := 1; i < len(p); i++ {
		if p[i] != '/' {
			continue
		}
		dir := p[:i]
		info, err := os.Stat(dir)
		if err != nil {
			return ""
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && !searchable(info.Mode(), st.Uid, st.Gid, accessList(dir), &r.owner.user) {
			return dir
		}
	}
	return ""
}

// shutOut takes out of guards those in a closed directory that a writable mount
// shows. Nothing can be mounted on them there, nor need be: that directory is
// hidden instead, and what is hidden can be neither written to nor renamed.
func (r *resolver) shutOut(m *mounts, guards []guard) (open, shut []guard) {
	if r.owner == nil {
		return guards, nil
	}
	for _, g := range guards {
		if dir := r.closed(g.path); dir != "" && m.writable(dir) && m.beneath(dir) {
			shut = append(shut, g)
		} else {
			open = append(open, g)
		}
	}
	return open, shut
}

// beneath reports whether a directory of the host lies beneath one that is
// mounted.
func (m *mounts) beneath(dir string) bool {
	return slices.ContainsFunc(m.spec.Table, func(have shared.Entry) bool {
		return have.Access != shared.Private && have.Source != dir && inside(have.Source, dir)
	})
}

// coverFor gives the path inside that has to be covered for p of the host's
// view, which no mount shows, to be hidden.
func (r *resolver) coverFor(p string) string {
	if dir := r.closed(p); dir != "" {
		return dir
	}
	return p
}

// Of a POSIX access list, as the kernel gives it: a version, and entries of a
// tag, permissions and an id.
const (
	aclVersion = 2
	aclEntry   = 8

	aclOwner      = 0x01
	aclUser       = 0x02
	aclOwnerGroup = 0x04
	aclGroup      = 0x08
	aclMask       = 0x10
	aclOther      = 0x20

	aclSearch = 1
)

// searchable reports whether a user who is not root may search a directory with
// that mode, owner and access list (nil for none), as the kernel decides it. An
// access list that is not understood lets nobody in: what is covered for it is
// hidden, and not shown.
func searchable(mode fs.FileMode, uid, gid uint32, list []byte, u *shared.User) bool {
	in := func(g uint32) bool { return g == u.GID || slices.Contains(u.Groups, g) }
	if len(list) == 0 {
		switch {
		case uid == u.UID:
			return mode&0o100 != 0
		case in(gid):
			return mode&0o010 != 0
		}
		return mode&0o001 != 0
	}
	if len(list) < 4 || (len(list)-4)%aclEntry != 0 || binary.LittleEndian.Uint32(list) != aclVersion {
		return false
	}
	var owner, named, other, mask, isNamed, inGroup, byGroup bool
	mask = true
	for e := range slices.Chunk(list[4:], aclEntry) {
		allows := binary.LittleEndian.Uint16(e[2:])&aclSearch != 0
		id := binary.LittleEndian.Uint32(e[4:])
		switch binary.LittleEndian.Uint16(e) {
		case aclOwner:
			owner = allows
		case aclUser:
			if id == u.UID {
				isNamed, named = true, allows
			}
		case aclOwnerGroup, aclGroup:
			if binary.LittleEndian.Uint16(e) == aclOwnerGroup {
				id = gid
			}
			if in(id) {
				inGroup, byGroup = true, byGroup || allows
			}
		case aclMask:
			mask = allows
		case aclOther:
			other = allows
		default:
			return false
		}
	}
	switch {
	case uid == u.UID:
		return owner
	case isNamed:
		return named && mask
	case inGroup:
		return byGroup && mask
	}
	return other
}
