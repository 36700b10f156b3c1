package landlock

import "strings"

// A rights is a set of the kernel's rights on files, LANDLOCK_ACCESS_FS_*.
type rights uint64

const (
	execute rights = 1 << iota
	writeFile
	readFile
	readDir
	removeDir
	removeFile
	makeChar
	makeDir
	makeReg
	makeSock
	makeFifo
	makeBlock
	makeSym
	refer    // ABI 2: renames and links between directories
	truncate // ABI 3
	ioctlDev // ABI 5
)

var rightNames = [...]string{"execute", "write_file", "read_file", "read_dir", "remove_dir", "remove_file", "make_char", "make_dir",
	"make_reg", "make_sock", "make_fifo", "make_block", "make_sym", "refer", "truncate", "ioctl_dev"}

func (r rights) String() string {
	var names []string
	for i, name := range rightNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// newestABI is the newest version that this package knows. It does not use additions of newer
// kernels.
const newestABI = 7

// handled are the rights that a kernel with that version can refuse.
func handled(abi int) rights {
	r := makeSym<<1 - 1
	if abi >= 2 {
		r |= refer
	}
	if abi >= 3 {
		r |= truncate
	}
	if abi >= 5 {
		r |= ioctlDev
	}
	return r
}

// scoped are LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET and LANDLOCK_SCOPE_SIGNAL, if the version has
// them.
func scoped(abi int) uint64 {
	if abi >= 6 {
		return 3
	}
	return 0
}

// An access is what a command may do with a path, the least first.
type access uint8

const (
	hidden access = iota
	read
	write
	device   // a device without ioctls of its own, such as /dev/null
	terminal // /dev/tty, which has ioctls
)

// rights are those of a kernel that knows all of them. No command may make devices.
func (a access) rights() rights {
	switch a {
	case read:
		return execute | readFile | readDir
	case write:
		return execute | readFile | readDir | writeFile | removeDir | removeFile | makeDir | makeReg | makeSock | makeFifo | makeSym | refer | truncate
	case device:
		return readFile | writeFile | truncate
	case terminal:
		return readFile | writeFile | ioctlDev
	}
	return 0
}
