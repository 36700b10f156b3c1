package host

import (
	"encoding/binary"
	"io/fs"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

// acl makes an access list as the kernel gives it: tag, permissions and id.
func acl(entries ...[3]uint32) []byte {
	list := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range entries {
		list = binary.LittleEndian.AppendUint16(list, uint16(e[0]))
		list = binary.LittleEndian.AppendUint16(list, uint16(e[1]))
		list = binary.LittleEndian.AppendUint32(list, e[2])
	}
	return list
}

// closedCases are directories of root's, or of the user 1000 (with group 1000,
// and 2000 besides), and whether that user can search them.
var closedCases = []struct {
	name     string
	mode     fs.FileMode
	uid, gid uint32
	acl      []byte
	want     bool
}{
	{"for root alone", 0o700, 0, 0, nil, false},
	{"to go through", 0o711, 0, 0, nil, true},
	{"to list and not to go through", 0o704, 0, 0, nil, false},
	{"by the group", 0o710, 0, 1000, nil, true},
	{"by a further group", 0o710, 0, 2000, nil, true},
	{"of another group", 0o710, 0, 3000, nil, false},
	{"for all but the group", 0o701, 0, 2000, nil, false},
	{"his own", 0o700, 1000, 0, nil, true},
	{"his own, for all but him", 0o077, 1000, 1000, nil, false},
	{"named", 0o710, 0, 0, acl([3]uint32{aclOwner, 7, 0}, [3]uint32{aclUser, 1, 1000}, [3]uint32{aclOwnerGroup, 0, 0}, [3]uint32{aclMask, 1, 0}, [3]uint32{aclOther, 0, 0}), true},
	{"named, and masked", 0o700, 0, 0, acl([3]uint32{aclOwner, 7, 0}, [3]uint32{aclUser, 1, 1000}, [3]uint32{aclOwnerGroup, 0, 0}, [3]uint32{aclMask, 0, 0}, [3]uint32{aclOther, 0, 0}), false},
	{"named to be shut out", 0o751, 0, 0, acl([3]uint32{aclOwner, 7, 0}, [3]uint32{aclUser, 0, 1000}, [3]uint32{aclOwnerGroup, 5, 0}, [3]uint32{aclMask, 5, 0}, [3]uint32{aclOther, 1, 0}), false},
	{"by a named group", 0o710, 0, 0, acl([3]uint32{aclOwner, 7, 0}, [3]uint32{aclOwnerGroup, 0, 0}, [3]uint32{aclGroup, 1, 2000}, [3]uint32{aclMask, 1, 0}, [3]uint32{aclOther, 0, 0}), true},
	{"a named group is shut out", 0o751, 0, 0, acl([3]uint32{aclOwner, 7, 0}, [3]uint32{aclOwnerGroup, 5, 0}, [3]uint32{aclGroup, 4, 2000}, [3]uint32{aclMask, 5, 0}, [3]uint32{aclOther, 1, 0}), false},
	{"the mask is not for others", 0o701, 0, 0, acl([3]uint32{aclOwner, 7, 0}, [3]uint32{aclUser, 1, 3000}, [3]uint32{aclOwnerGroup, 0, 0}, [3]uint32{aclMask, 0, 0}, [3]uint32{aclOther, 1, 0}), true},
}

var closedUser = shared.User{UID: 1000, GID: 1000, Groups: []uint32{2000}}

func TestSearchable(t *testing.T) {
	t.Parallel()
	for _, c := range closedCases {
		if got := searchable(c.mode, c.uid, c.gid, c.acl, &closedUser); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	for _, bad := range [][]byte{{1}, acl()[:3], {3, 0, 0, 0}, append(acl(), 1), acl([3]uint32{0x40, 7, 0})} {
		if searchable(0o777, 0, 0, bad, &closedUser) {
			t.Errorf("%x lets somebody in", bad)
		}
	}
}

// Nobody whom neither an entry nor others' permissions let in gets in.
func FuzzSearchable(f *testing.F) {
	for _, c := range closedCases {
		f.Add(uint32(c.mode), c.uid, c.gid, c.acl)
	}
	f.Add(uint32(0o777), uint32(0), uint32(0), []byte{2, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, mode, uid, gid uint32, list []byte) {
		if !searchable(fs.FileMode(mode), uid, gid, list, &closedUser) {
			return
		}
		allowed := len(list) == 0 && mode&0o111 != 0
		for i := 4; i+aclEntry <= len(list); i += aclEntry {
			allowed = allowed || list[i] != aclMask && list[i+2]&aclSearch != 0
		}
		if !allowed {
			t.Errorf("%o %d %d %x", mode, uid, gid, list)
		}
	})
}
