package seccomp

import (
	"slices"
	"strings"
)

// absent stands for a call that an architecture does not have.
const absent = ^uint32(0)

// newest is the greatest number that this package knows. From 424 on, a number means the same call
// on every architecture. Calls with greater numbers are refused: they may be a new way to do what a
// rule denies. The numbers of x32 are greater, too, and so are those below 548 by which old kernels
// of amd64 accept x32's calls without its mark.
const newest = 471

// A numberedCall has a number for each architecture.
type numberedCall struct {
	name         string
	amd64, arm64 uint32
}

// calls are, by name, the calls that rules name or at which a traced command is stopped.
var calls = [...]numberedCall{
	{"access", 21, absent},
	{"add_key", 248, 217},
	{"bind", 49, 200},
	{"bpf", 321, 280},
	{"chdir", 80, 49},
	{"chmod", 90, absent},
	{"chown", 92, absent},
	{"chroot", 161, 51},
	{"clone", 56, 220},
	{"clone3", 435, 435},
	{"connect", 42, 203},
	{"creat", 85, absent},
	{"delete_module", 176, 106},
	{"execve", 59, 221},
	{"execveat", 322, 281},
	{"faccessat", 269, 48},
	{"faccessat2", 439, 439},
	{"fchmod", 91, 52},
	{"fchmodat", 268, 53},
	{"fchmodat2", 452, 452},
	{"fchown", 93, 55},
	{"fchownat", 260, 54},
	{"file_setattr", 469, 469},
	{"finit_module", 313, 273},
	{"fremovexattr", 199, 16},
	{"fsconfig", 431, 431},
	{"fsetxattr", 190, 7},
	{"fsmount", 432, 432},
	{"fsopen", 430, 430},
	{"fspick", 433, 433},
	{"init_module", 175, 105},
	{"io_uring_enter", 426, 426},
	{"io_uring_register", 427, 427},
	{"io_uring_setup", 425, 425},
	{"ioctl", 16, 29},
	{"kcmp", 312, 272},
	{"kexec_file_load", 320, 294},
	{"kexec_load", 246, 104},
	{"keyctl", 250, 219},
	{"lchown", 94, absent},
	{"link", 86, absent},
	{"linkat", 265, 37},
	{"lremovexattr", 198, 15},
	{"lsetxattr", 189, 6},
	{"lstat", 6, absent},
	{"mkdir", 83, absent},
	{"mkdirat", 258, 34},
	{"mknod", 133, absent},
	{"mknodat", 259, 33},
	{"mount", 165, 40},
	{"mount_setattr", 442, 442},
	{"move_mount", 429, 429},
	{"newfstatat", 262, 79},
	{"open", 2, absent},
	{"open_by_handle_at", 304, 265},
	{"open_tree", 428, 428},
	{"open_tree_attr", 467, 467},
	{"openat", 257, 56},
	{"openat2", 437, 437},
	{"perf_event_open", 298, 241},
	{"personality", 135, 92},
	{"pidfd_getfd", 438, 438},
	{"pivot_root", 155, 41},
	{"prlimit64", 302, 261},
	{"process_vm_readv", 310, 270},
	{"process_vm_writev", 311, 271},
	{"ptrace", 101, 117},
	{"readlink", 89, absent},
	{"readlinkat", 267, 78},
	{"removexattr", 197, 14},
	{"removexattrat", 466, 466},
	{"rename", 82, absent},
	{"renameat", 264, 38},
	{"renameat2", 316, 276},
	{"request_key", 249, 218},
	{"rmdir", 84, absent},
	{"setns", 308, 268},
	{"setxattr", 188, 5},
	{"setxattrat", 463, 463},
	{"socket", 41, 198},
	{"socketpair", 53, 199},
	{"stat", 4, absent},
	{"statfs", 137, 43},
	{"statx", 332, 291},
	{"symlink", 88, absent},
	{"symlinkat", 266, 36},
	{"syslog", 103, 116},
	{"truncate", 76, 45},
	{"umount2", 166, 39},
	{"unlink", 87, absent},
	{"unlinkat", 263, 35},
	{"unshare", 272, 97},
	{"userfaultfd", 323, 282},
	{"utimensat", 280, 88},
}

// An arch has what distinguishes one architecture's programs from another's.
type arch struct {
	goarch string
	audit  uint32 // AUDIT_ARCH_*, as the kernel passes it to a filter
}

var arches = [...]arch{
	{"amd64", 0xc000003e}, // AUDIT_ARCH_X86_64
	{"arm64", 0xc00000b7}, // AUDIT_ARCH_AARCH64
}

// numberOf is the call's number, or absent. A rule without its call must not become a filter, so a
// name that is not in the table is a panic.
func (a arch) numberOf(name string) uint32 {
	i, ok := slices.BinarySearchFunc(calls[:], name, func(c numberedCall, name string) int { return strings.Compare(c.name, name) })
	switch {
	case !ok:
		panic("seccomp: the call " + name + " has no number")
	case a.goarch == "arm64":
		return calls[i].arm64
	}
	return calls[i].amd64
}
