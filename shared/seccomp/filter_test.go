package seccomp

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/net/bpf"

	"github.com/sbxhost/sbxhost/internal/engine/traced"
)

var update = flag.Bool("update", false, "write the golden files")

// Every rule with a neighbour that it must not touch.
func TestCalls(t *testing.T) {
	t.Parallel()
	strict := Options{}
	debug := Options{Ptrace: true}
	unix := Options{UnixSockets: true}
	nested := Options{NestedUserNamespaces: true}
	bare := Options{Unhidden: true}
	own := Options{Owners: &Owners{UID: 1000, GIDs: []uint32{100, 27}}}
	alone := Options{Owners: &Owners{UID: 0}}
	both := Options{Owners: own.Owners, NestedUserNamespaces: true}
	type args = [6]uint64
	for _, tt := range []struct {
		o    Options
		name string
		args args
		want string
	}{
		{strict, "read", args{}, allowed},
		{strict, "execve", args{}, allowed},
		{strict, "seccomp", args{}, allowed},
		{strict, "landlock_restrict_self", args{}, allowed},
		{strict, "pidfd_open", args{}, allowed},

		{strict, "ioctl", args{0, 0x5412}, isEPERM}, // TIOCSTI
		{strict, "ioctl", args{0, 0x5413}, allowed}, // TIOCGWINSZ
		{strict, "ioctl", args{0, 0x5411}, allowed},
		{strict, "ioctl", args{0, 0x541c}, isEPERM}, // TIOCLINUX
		{strict, "ioctl", args{0, 0x541b}, allowed}, // FIONREAD
		{strict, "ioctl", args{0x5412, 0}, allowed},

		{strict, "openat", args{0, 0, 0o101, 0o644}, allowed},
		{strict, "openat", args{0, 0, 0o101, 0o4755}, isEPERM},
		{strict, "openat", args{0, 0, 0o101, 0o2755}, isEPERM},
		{strict, "openat", args{0, 0, 0o101, 0o1777}, allowed},
		{strict, "openat", args{0, 0, 0o20000002, 0o6755}, isEPERM}, // O_TMPFILE
		{strict, "openat", args{0, 0, 2, 0o6755}, allowed},          // no file is made: the mode is not looked at
		{strict, "open", args{0, 0o101, 0o4755}, isEPERM},
		{strict, "open", args{0, 0o101, 0o755}, allowed},
		{strict, "open", args{0, 0, 0o4755}, allowed},
		{strict, "creat", args{0, 0o4755}, isEPERM},
		{strict, "creat", args{0, 0o755}, allowed},
		{strict, "openat2", args{}, isENOSYS},

		{strict, "openat", args{0, 0, 3}, allowed},
		{bare, "openat", args{0, 0, 3}, isEPERM},
		{bare, "openat", args{0, 0, 0o1003}, isEPERM}, // O_TRUNC, which would empty it
		{bare, "openat", args{0, 0, 0o1002}, allowed},
		{bare, "open", args{0, 0o1003}, isEPERM},
		{bare, "open", args{0, 0o1001}, allowed},
		{strict, "prlimit64", args{9, 0, 1}, allowed},
		{bare, "prlimit64", args{0, 0, 1}, allowed},
		{bare, "prlimit64", args{9, 0, 1}, isEPERM},

		{strict, "chmod", args{0, 0o755}, allowed},
		{strict, "chmod", args{0, 0o1777}, allowed},
		{strict, "chmod", args{0, 0o4755}, isEPERM},
		{strict, "chmod", args{0, 0o2755}, isEPERM},
		{strict, "fchmod", args{0o4755, 0o755}, allowed},
		{strict, "fchmod", args{0, 0o4000}, isEPERM},
		{strict, "fchmodat", args{0, 0o4755, 0o755}, allowed},
		{strict, "fchmodat", args{0, 0, 0o2000}, isEPERM},
		{strict, "fchmodat2", args{0, 0, 0o777}, allowed},
		{strict, "fchmodat2", args{0, 0, 0o4777}, isEPERM},

		{own, "chown", args{0, 1000, 100}, allowed},
		{own, "lchown", args{0, 1<<32 - 1, 27}, allowed},
		{own, "fchown", args{0, 1000, 1<<32 - 1}, allowed},
		{own, "chown", args{0, 0, 1<<32 - 1}, isEPERM},
		{own, "lchown", args{0, 1000, 28}, isEPERM},
		{own, "fchown", args{0, 100, 1000}, isEPERM},
		{own, "fchownat", args{0, 0, 1000, 27}, allowed},
		{own, "fchownat", args{1000, 1000, 999, 27}, isEPERM},
		{own, "fchownat", args{0, 0, 1000, 0}, isEPERM},
		{alone, "fchown", args{0, 0, 77}, allowed},
		{alone, "fchown", args{0, 77, 0}, isEPERM},
		{both, "chown", args{0, 5, 5}, allowed},
		{strict, "chown", args{0, 5, 5}, allowed},

		{strict, "mknod", args{0, 0o010644}, allowed}, // fifo
		{strict, "mknod", args{0, 0o100644}, allowed},
		{strict, "mknod", args{0, 0o140644}, allowed}, // socket
		{strict, "mknod", args{0, 0o020644}, isEPERM},
		{strict, "mknod", args{0, 0o060644}, isEPERM},
		{strict, "mknod", args{0, 0o104755}, isEPERM},
		{strict, "mknodat", args{0, 0, 0o010644}, allowed},
		{strict, "mknodat", args{0, 0, 0o644}, allowed},
		{strict, "mknodat", args{0, 0, 0o020000}, isEPERM},
		{strict, "mknodat", args{0, 0, 0o060000}, isEPERM},
		{strict, "mknodat", args{0, 0, 0o102644}, isEPERM},
		{strict, "renameat2", args{0, 0, 0, 0, 3}, allowed}, // no replacement, an exchange
		{strict, "renameat2", args{0, 0, 0, 0, 5}, isEPERM},
		{nested, "renameat2", args{0, 0, 0, 0, 5}, allowed},

		{unix, "socket", args{1, 1}, allowed},
		{unix, "socket", args{2, 0o2000001}, allowed}, // stream, close-on-exec
		{unix, "socket", args{10, 2}, allowed},
		{unix, "socket", args{16, 3}, allowed}, // netlink, raw
		{unix, "socket", args{2, 3}, isEPERM},
		{unix, "socket", args{10, 0o2004003}, isEPERM}, // raw with flags
		{unix, "socket", args{2, 10}, isEPERM},         // SOCK_PACKET
		{unix, "socket", args{17, 3}, isEPERM},         // AF_PACKET
		{unix, "socket", args{17, 2}, isEPERM},
		{unix, "socket", args{38, 5}, isEPERM}, // AF_ALG
		{unix, "socket", args{40, 1}, isEPERM}, // AF_VSOCK
		{unix, "socket", args{44, 3}, isEPERM}, // AF_XDP
		{unix, "socket", args{0, 1}, isEPERM},
		{unix, "socketpair", args{1, 2}, allowed},
		{unix, "socketpair", args{30, 1}, isEPERM}, // AF_TIPC
		{strict, "socket", args{1, 1}, isEPERM},
		{strict, "socket", args{2, 1}, allowed},
		{strict, "socketpair", args{1, 1}, allowed},
		{strict, "socketpair", args{1, 0o2000005}, allowed},
		{strict, "socketpair", args{1, 2}, isEPERM},
		{strict, "socketpair", args{1, 0o2000002}, isEPERM},
		{strict, "socketpair", args{1, 3}, isEPERM},

		{strict, "personality", args{0}, allowed},
		{strict, "personality", args{0xffffffff}, allowed},
		{strict, "personality", args{0x0040000}, isEPERM},
		{strict, "personality", args{8}, isEPERM},
		{debug, "personality", args{0x0040000}, allowed},
		{debug, "personality", args{0x0440000}, isEPERM}, // READ_IMPLIES_EXEC

		{strict, "clone", args{0x3d0f00}, allowed}, // a thread
		{strict, "clone", args{0x01000011}, allowed},
		{strict, "clone", args{0x1000 | 17}, allowed}, // CLONE_PIDFD
		{strict, "clone", args{0x10000000 | 17}, isEPERM},
		{strict, "clone", args{0x00020000}, isEPERM},
		{strict, "clone", args{0x02000000}, isEPERM},
		{strict, "clone", args{0x04000000}, isEPERM},
		{strict, "clone", args{0x08000000}, isEPERM},
		{strict, "clone", args{0x20000000}, isEPERM},
		{strict, "clone", args{0x40000000}, isEPERM},
		{nested, "clone", args{0x10000000 | 17}, allowed},
		{strict, "clone3", args{}, isENOSYS},
		{nested, "clone3", args{}, isENOSYS},
		{strict, "unshare", args{0x600}, allowed}, // CLONE_FS, CLONE_FILES
		{strict, "unshare", args{0x10000000}, isEPERM},
		{strict, "unshare", args{0x80}, isEPERM}, // CLONE_NEWTIME
		{nested, "unshare", args{0x10000080}, allowed},
	} {
		for _, a := range arches {
			number, ok := known(t)[a.goarch][tt.name]
			if !ok {
				return
			}
			run := machine(t, filter(t, a.goarch, tt.o))
			c := call{number, a.audit, tt.args}
			if got := run(c); got != tt.want {
				t.Errorf("%s %+v: %s%#o: %s, want %s", a.goarch, tt.o, tt.name, tt.args, got, tt.want)
			}
			// The kernel drops the high halves; to look at them would be a way around.
			for i := range c.args {
				c.args[i] |= 0xdeadbeef << 32
			}
			if got := run(c); got != tt.want {
				t.Errorf("%s %+v: %s%#o with high halves set: %s, want %s", a.goarch, tt.o, tt.name, tt.args, got, tt.want)
			}
			c.arch = i386
			if got := run(c); got != killed {
				t.Errorf("%s by a 32-bit entry: %s", tt.name, got)
			}
		}
	}
}

// The calls that are refused whatever their arguments.
func TestRefusedAltogether(t *testing.T) {
	t.Parallel()
	always := []string{"pidfd_getfd", "bpf", "userfaultfd", "perf_event_open", "add_key", "request_key", "keyctl", "kexec_load",
		"kexec_file_load", "init_module", "finit_module", "delete_module", "syslog", "open_by_handle_at"}
	ptrace := []string{"ptrace", "process_vm_readv", "process_vm_writev", "kcmp"}
	nested := []string{"setns", "mount", "umount2", "pivot_root", "chroot", "mount_setattr", "move_mount", "open_tree",
		"open_tree_attr", "fsopen", "fsconfig", "fsmount", "fspick"}
	substituted := []string{"clone3", "openat2", "io_uring_setup", "io_uring_enter", "io_uring_register"}
	every(t, func(t *testing.T, goarch string, o Options) {
		run := machine(t, filter(t, goarch, o))
		check := func(names []string, want string) {
			for _, name := range names {
				for _, args := range [][6]uint64{{}, {1, 2, 3, 4, 5, 6}, {^uint64(0), ^uint64(0)}} {
					if got := run(call{known(t)[goarch][name], auditOf(goarch), args}); got != want {
						t.Errorf("%s%v: %s, want %s", name, args, got, want)
					}
				}
			}
		}
		unless := func(let bool) string {
			if let {
				return allowed
			}
			return isEPERM
		}
		check(always, isEPERM)
		check(ptrace, unless(o.Ptrace))
		check(nested, unless(o.NestedUserNamespaces))
		check(substituted, isENOSYS)
	})
}

func TestOtherEntries(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, goarch string, o Options) {
		run := machine(t, filter(t, goarch, o))
		own := auditOf(goarch)
		other := uint32(x86 ^ aarch ^ own)
		for number := range uint32(600) {
			for _, arch := range []uint32{i386, arm, other, 0, ^uint32(0), own ^ 0x80000000} {
				if got := run(call{number: number, arch: arch}); got != killed {
					t.Fatalf("call %d of architecture %#x: %s", number, arch, got)
				}
			}
			if got := run(call{number: number | 0x40000000, arch: own}); got != isENOSYS {
				t.Fatalf("x32's call %d: %s", number, got)
			}
		}
		for _, number := range []uint32{newest + 1, 512, 514, 547, 548, 1000, 0x3fffffff, 0x40000000, 0x7fffffff, 0x80000000, ^uint32(0)} {
			if got := run(call{number: number, arch: own}); got != isENOSYS {
				t.Errorf("call %d: %s, want ENOSYS", number, got)
			}
		}
		if got := run(call{number: newest, arch: own}); got != allowed {
			t.Errorf("the newest call: %s", got)
		}
	})
}

// The listing and the program as people review them.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, goarch string
		o            Options
	}{
		{"amd64-default", "amd64", Options{UnixSockets: true}},
		{"arm64-default", "arm64", Options{UnixSockets: true}},
		{"amd64-owners", "amd64", Options{UnixSockets: true, Owners: &Owners{UID: 1000, GIDs: []uint32{1000, 27}}}},
		{"amd64-strict", "amd64", Options{}},
		{"amd64-loose", "amd64", Options{Ptrace: true, UnixSockets: true, NestedUserNamespaces: true}},
	} {
		f := filter(t, tt.goarch, tt.o)
		golden(t, tt.name, f.String()+"\n", f)
	}
	for _, goarch := range []string{"amd64", "arm64"} {
		f, err := Tracing(goarch)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, goarch+"-tracing", "", f)
	}
}

func golden(t *testing.T, name, got string, f Filter) {
	t.Helper()
	program, ok := bpf.Disassemble(f.program)
	if !ok {
		t.Errorf("%s: not all of the program can be read back", name)
	}
	for i, instruction := range program {
		got += fmt.Sprintf("%3d %v\n", i, instruction)
	}
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs from %s (-update writes it):\n%s", name, file, got)
	}
}

// Each call that is watched stops with its own mark, and no other does.
func TestTracing(t *testing.T) {
	t.Parallel()
	for _, a := range arches {
		f, err := Tracing(a.goarch)
		if err != nil {
			t.Fatal(err)
		}
		run := machine(t, f)
		marks := map[uint32]string{}
		for i := range traced.Calls() {
			if number, ok := known(t)[a.goarch][traced.Calls()[i].Name]; ok {
				marks[number] = fmt.Sprintf("%#x", 0x7ff00000|uint32(traced.Mark(i)))
			}
		}
		if len(marks) < 20 {
			t.Fatalf("%s: %d calls are watched", a.goarch, len(marks))
		}
		for number := range uint32(600) {
			want := allowed
			if marks[number] != "" {
				want = marks[number]
			}
			if got := run(call{number: number, arch: a.audit}); got != want {
				t.Errorf("%s: call %d: %s, want %s", a.goarch, number, got, want)
			}
			if got := run(call{number: number, arch: i386}); got != allowed {
				t.Errorf("%s: call %d of another architecture: %s", a.goarch, number, got)
			}
		}
	}
	if _, err := Tracing("riscv64"); err == nil {
		t.Error("a program for an architecture without numbers")
	}
}
