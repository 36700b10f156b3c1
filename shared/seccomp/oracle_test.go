package seccomp

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// oracle says what should become of a call, in the plainest way there is. It
// shares nothing with the rules but what they are about.
func oracle(names map[uint32]string, own uint32, o Options, c call) string {
	if c.arch != own {
		return killed
	}
	if c.number > 471 {
		return isENOSYS
	}
	arg := func(i int) uint32 { return uint32(c.args[i]) }
	refused := false
	switch names[c.number] {
	case "clone3", "openat2", "io_uring_setup", "io_uring_enter", "io_uring_register":
		return isENOSYS
	case "ioctl":
		refused = arg(1) == 0x5412 || arg(1) == 0x541c
	case "open":
		refused = (arg(1)&0o100 != 0 || arg(1)&0o20000000 != 0) && arg(2)&0o6000 != 0
	case "openat":
		refused = (arg(2)&0o100 != 0 || arg(2)&0o20000000 != 0) && arg(3)&0o6000 != 0
	case "creat", "chmod", "fchmod":
		refused = arg(1)&0o4000 != 0 || arg(1)&0o2000 != 0
	case "fchmodat", "fchmodat2":
		refused = arg(2)&0o4000 != 0 || arg(2)&0o2000 != 0
	case "mknod", "mknodat":
		mode := arg(1)
		if names[c.number] == "mknodat" {
			mode = arg(2)
		}
		switch mode & 0o170000 {
		case 0o020000, 0o060000:
			refused = true
		default:
			refused = mode&0o6000 != 0
		}
	case "renameat2":
		refused = !o.NestedUserNamespaces && arg(4)&4 != 0
	case "socket":
		switch family, kind := arg(0), arg(1)&0xf; family {
		case 1:
			refused = !o.UnixSockets || kind == 3 || kind == 10
		case 2, 10:
			refused = kind == 3 || kind == 10
		case 16:
			refused = kind == 10
		default:
			refused = true
		}
	case "socketpair":
		switch arg(0) {
		case 1:
			refused = !o.UnixSockets && (arg(1)&0xf == 2 || arg(1)&0xf == 3)
		case 2, 10, 16:
		default:
			refused = true
		}
	case "personality":
		switch arg(0) {
		case 0, 0xffffffff:
		case 0x40000:
			refused = !o.Ptrace
		default:
			refused = true
		}
	case "chown", "fchown", "lchown":
		refused = foreignID(o, arg(1), arg(2))
	case "fchownat":
		refused = foreignID(o, arg(2), arg(3))
	case "clone":
		refused = !o.NestedUserNamespaces && arg(0)&0x7e020000 != 0
	case "unshare":
		refused = !o.NestedUserNamespaces && arg(0)&0x7e020080 != 0
	case "setns", "mount", "umount2", "pivot_root", "chroot", "mount_setattr", "move_mount", "open_tree",
		"open_tree_attr", "fsopen", "fsconfig", "fsmount", "fspick":
		refused = !o.NestedUserNamespaces
	case "ptrace", "process_vm_readv", "process_vm_writev", "kcmp":
		refused = !o.Ptrace
	case "pidfd_getfd", "bpf", "userfaultfd", "perf_event_open", "add_key", "request_key", "keyctl", "kexec_load",
		"kexec_file_load", "init_module", "finit_module", "delete_module", "syslog", "open_by_handle_at":
		refused = true
	}
	if refused {
		return isEPERM
	}
	return allowed
}

// foreignID reports whether one of two owners is another than the command itself.
func foreignID(o Options, user, group uint32) bool {
	if o.Owners == nil || o.NestedUserNamespaces {
		return false
	}
	groups := o.Owners.GIDs
	return user != 1<<32-1 && user != o.Owners.UID ||
		group != 1<<32-1 && len(groups) > 0 && len(groups) <= 32 && !slices.Contains(groups, group)
}

func namesOf(t testing.TB, goarch string) map[uint32]string {
	names := map[uint32]string{}
	for name, n := range known(t)[goarch] {
		names[n] = name
	}
	return names
}

// TestAgainstOracle tries each number there is, and random ones, with random
// arguments of which many are at the edges of rules.
func TestAgainstOracle(t *testing.T) {
	t.Parallel()
	edges := []uint32{0, 1, 2, 3, 5, 10, 11, 16, 17, 38, 40, 0x80, 0x100, 0x5411, 0x5412, 0x5413, 0x541c, 0o100, 0o101, 0o20000000,
		0o644, 0o4755, 0o2755, 0o1777, 0o010644, 0o020644, 0o060644, 0o100644, 0o140644, 0o160644, 0x40000, 0x10000000, 0x10000, 0xffffffff, 0x7fffffff}
	every(t, func(t *testing.T, goarch string, o Options) {
		run := machine(t, filter(t, goarch, o))
		own, names := auditOf(goarch), namesOf(t, goarch)
		rng := rand.New(rand.NewPCG(1, 2))
		try := func(number, arch uint32) {
			c := call{number: number, arch: arch}
			for i := range c.args {
				low, edge, other := rng.Uint32(), edges[rng.IntN(len(edges))], edges[rng.IntN(len(edges))]
				switch rng.IntN(4) {
				case 0, 1:
					low = edge
				case 2:
					low = edge | other
				}
				c.args[i] = uint64(low)
				if rng.IntN(2) == 0 {
					c.args[i] |= uint64(rng.Uint32()) << 32
				}
			}
			if got, want := run(c), oracle(names, own, o, c); got != want {
				t.Errorf("%s (%d) %#x of %#x: %s, want %s", names[number], number, c.args, arch, got, want)
			}
		}
		for number := range uint32(600) {
			for range 40 {
				try(number, own)
			}
			try(number, rng.Uint32())
			try(number|0x40000000, own)
			try(rng.Uint32(), own)
		}
		for _, c := range calls {
			if n := known(t)[goarch][c.name]; n != 0 {
				for range 1000 {
					try(n, own)
				}
			}
		}
	})
}

func FuzzAgainstOracle(f *testing.F) {
	for _, c := range calls {
		f.Add(c.amd64, uint32(x86), uint64(0), uint64(0x5412), uint64(0o6755), uint64(0o4755), uint8(0))
	}
	f.Fuzz(func(t *testing.T, number, arch uint32, a, b, c, d uint64, bits uint8) {
		goarch := "amd64"
		if bits&8 != 0 {
			goarch = "arm64"
		}
		o := Options{Ptrace: bits&1 != 0, UnixSockets: bits&2 != 0, NestedUserNamespaces: bits&4 != 0, Owners: ownersOf(bits >> 4)}
		made := call{number, arch, [6]uint64{a, b, c, d}}
		if got, want := machine(t, filter(t, goarch, o))(made), oracle(namesOf(t, goarch), auditOf(goarch), o, made); got != want {
			t.Errorf("%+v: %s, want %s", made, got, want)
		}
	})
}
