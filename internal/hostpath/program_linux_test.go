package hostpath

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// With an access control list the bits of a group of one are those of whoever is
// on the list.
func TestAccessControlList(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chown(program, os.Getuid(), os.Getgid()), os.Chmod(program, 0o775)); err != nil {
		t.Fatal(err)
	}
	check := func() error {
		info, err := os.Stat(program)
		if err != nil {
			t.Fatal(err)
		}
		return CheckExecutable(program, info)
	}
	before := check()
	if os.Getuid() == os.Getgid() && before != nil {
		t.Error(before)
	}
	// user::rwx user:65534:rwx group::r-x mask::rwx other::r-x
	list := binary.LittleEndian.AppendUint32(nil, 2)
	for _, entry := range [][3]uint32{{1, 7, math.MaxUint32}, {2, 7, 65534}, {4, 5, math.MaxUint32}, {0x10, 7, math.MaxUint32}, {0x20, 5, math.MaxUint32}} {
		list = binary.LittleEndian.AppendUint16(list, uint16(entry[0]))
		list = binary.LittleEndian.AppendUint16(list, uint16(entry[1]))
		list = binary.LittleEndian.AppendUint32(list, entry[2])
	}
	switch err := unix.Setxattr(program, "system.posix_acl_access", list, 0); {
	case errors.Is(err, syscall.ENOTSUP) && !slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "acl"):
		t.Skip("the file system of the temporary directory has no access control lists")
	case err != nil:
		t.Fatal(err)
	}
	if err := check(); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("somebody else can write to it: %v", err)
	}
	// What the hint says helps: it takes the mask's bit.
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := check(); err != nil {
		t.Error(err)
	}
}
