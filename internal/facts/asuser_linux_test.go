package facts

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/shared"
)

// Tags of an access list, as the kernel gives it.
const (
	aclVersion    = 2
	aclOwner      = 0x01
	aclUser       = 0x02
	aclOwnerGroup = 0x04
	aclGroup      = 0x08
	aclMask       = 0x10
	aclOther      = 0x20
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

// searchCases are directories of root's, or of the user 1000 (with group 1000,
// and 2000 besides), and whether that user can search them.
var searchCases = []struct {
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

var otherUser = shared.User{UID: 1000, GID: 1000, Groups: []uint32{2000}}

// Unsearchable says what the kernel does, with modes and access lists.
func TestUnsearchableAsTheKernelSays(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root runs commands as another user")
	}
	base := t.TempDir()
	for dir := base; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f := newLookup(t.Context(), &Machine{Config: Config{Owner: &Owner{User: otherUser}}})
	t.Cleanup(func() {
		if err := f.close(); err != nil {
			t.Error(err)
		}
	})
	for _, c := range searchCases {
		dir := filepath.Join(base, strings.ReplaceAll(c.name, " ", "-"))
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, int(c.uid), int(c.gid)), os.Chmod(dir, c.mode)); err != nil {
			t.Fatal(err)
		}
		if c.acl != nil {
			err := unix.Setxattr(dir, "system.posix_acl_access", c.acl, 0)
			if errors.Is(err, unix.EOPNOTSUPP) && !slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "bwrap") {
				t.Logf("%s: the file system has no access lists", c.name)
				continue
			} else if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		want := ""
		cmd := exec.Command("test", "-x", dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser.UID, Gid: otherUser.GID, Groups: otherUser.Groups}}
		if err := cmd.Run(); err != nil {
			if _, ran := errors.AsType[*exec.ExitError](err); !ran {
				t.Fatal(err)
			}
			want = dir
		}
		if (want == "") != c.want {
			t.Errorf("%s: the kernel says %v", c.name, want == "")
		}
		if got := f.Unsearchable(filepath.Join(dir, "a/b")); got != want {
			t.Errorf("%s: closed at %q, want %q", c.name, got, want)
		}
		if got := f.Unsearchable(dir); got != "" {
			t.Errorf("%s: its name is closed at %q", c.name, got)
		}
	}
	if got := newLookup(t.Context(), &Machine{}).Unsearchable(filepath.Join(base, "for-root-alone/a")); got != "" {
		t.Errorf("for the caller himself: %q", got)
	}
}
