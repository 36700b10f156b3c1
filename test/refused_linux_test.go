package test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// TestMachineRefuses has the engine native meet what a machine lacks or refuses:
// nothing runs, one line says what is missing, and nothing stays.
func TestMachineRefuses(t *testing.T) {
	need(t, "unshare", "prlimit")
	bin := t.TempDir()
	build(t, bin, "cmd/sbxhost")
	const namespaces = "the container around this process refuses new namespaces|the kernel refuses new namespaces"
	for _, tt := range []struct {
		name string
		// in is a shell's way to the place, in a namespace of its own; "$@" is the command.
		in       string
		filtered bool // as Docker filters the calls of its containers
		exec     []string
		want     string // in the line
		ran      bool   // it can do without
	}{
		{name: "nothing", in: `exec "$@"`, ran: true},
		{name: "a container's filter", filtered: true, in: `exec "$@"`, want: namespaces},
		{name: "no user namespaces", in: `echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"`, want: `user namespaces are switched off: user.max_user_namespaces is 0`},
		{name: "no /proc", in: `mount -t tmpfs none /proc; exec "$@"`, want: `no /proc is mounted here`},
		{name: "a /proc with covers", in: `mount -t tmpfs none /proc/sys; exec "$@"`, want: `a fresh /proc cannot be mounted`},
		{name: "a full disk", in: `mount -t tmpfs -o size=16k none $HOME; head -c 16384 /dev/zero >$HOME/fill 2>/dev/null; exec "$@"`, exec: []string{"-session", "s"}, want: `no space left on device`},
		{name: "a disk of many files", in: `mount -t tmpfs -o nr_inodes=1 none $HOME; exec "$@"`, exec: []string{"-session", "s"}, want: `no space left on device`},
		{name: "a full disk without a session", in: `mount -t tmpfs -o size=16k none $HOME; head -c 16384 /dev/zero >$HOME/fill 2>/dev/null; exec "$@"`, ran: true},
		{name: "a full workspace", in: `mount -t tmpfs -o nr_inodes=3 none $HOME/../project; cd $HOME/../project; : >file; exec "$@"`, want: `no stub can hold the path ".*/\.[a-z]+", which a command must not create: no space left on device`},
		{name: "10 descriptors", in: `exec prlimit --nofile=10 "$@"`, want: `too many open files`},
		{name: "16 descriptors", in: `exec prlimit --nofile=16 "$@"`, want: `too many open files`},
		{name: "a bind that is gone", in: `rmdir $HOME/bound; exec "$@"`, exec: []string{"-sandbox", "bound"}, want: `bind_paths\[0\]: ".*/bound" does not exist`},
		{name: "a bind where nothing can be made", in: `exec "$@"`, exec: []string{"-sandbox", "nowhere"}, want: `bind_paths\[0\]: destination "/usr/no/where" does not exist`},
		{name: "a bind on a file", in: `exec "$@"`, exec: []string{"-sandbox", "file"}, want: `bind_paths\[0\]: destination "/etc/passwd/x" is a file`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			base, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			config := "default_sandbox = \"n\"\n\nsandbox \"n\" {\n  engine = \"native\"\n}\n"
			for name, bind := range map[string]string{
				"bound":   `"` + base + `/home/bound"`,
				"nowhere": `{ host = "` + base + `/home/bound", container = "/usr/no/where" }`,
				"file":    `{ host = "` + base + `/home/bound", container = "/etc/passwd/x" }`,
			} {
				config += fmt.Sprintf("\nsandbox %q {\n  engine     = \"native\"\n  bind_paths = [%s]\n}\n", name, bind)
			}
			// In an empty project nothing is held.
			if err := errors.Join(os.MkdirAll(base+"/home/bound", 0o755), os.MkdirAll(base+"/tmp", 0o755), os.MkdirAll(base+"/project", 0o755),
				os.WriteFile(base+"/project/file", nil, 0o644), os.WriteFile(base+"/config.hcl", []byte(config), 0o644)); err != nil {
				t.Fatal(err)
			}
			args := slices.Concat([]string{"-Urm", "sh", "-c", tt.in, "sh", bin + "/sbxhost", "exec", "-config", base + "/config.hcl"}, tt.exec, []string{"--", "sh", "-c", "echo ran"})
			cmd := exec.Command("unshare", args...)
			if tt.filtered {
				cmd = exec.Command(args[5], args[6:]...)
			}
			var out, diagnostics strings.Builder
			cmd.Dir, cmd.Stdout, cmd.Stderr = base+"/project", &out, &diagnostics
			cmd.Env = []string{"HOME=" + base + "/home", "TMPDIR=" + base + "/tmp", "PATH=/usr/bin:/bin", "SBX_SERVE=off"}
			start := cmd.Start
			if tt.filtered {
				start = func() error { return startFiltered(cmd) }
			}
			if err := start(); err != nil {
				t.Fatal(err)
			}
			cmd.Wait()
			if status := cmd.ProcessState.ExitCode(); tt.ran && (status != 0 || out.String() != "ran\n") || !tt.ran && (status != 125 || out.Len() > 0) {
				t.Errorf("status %d, output %q, %s", status, out.String(), diagnostics.String())
			}
			lines := strings.Split(strings.TrimSpace(diagnostics.String()), "\n")
			said := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.HasPrefix(line, "  hint: ") })
			wrong := strings.HasPrefix(lines[0], "Error: ") // of a definition, which is shown
			if !tt.ran && (!regexp.MustCompile(tt.want).MatchString(diagnostics.String()) || wrong != strings.HasPrefix(tt.want, "bind_paths") ||
				!wrong && (len(said) != 1 || !strings.HasPrefix(said[0], `sbxhost: `))) {
				t.Errorf("it says\n%s\nwant one line with %q", diagnostics.String(), tt.want)
			}

			left := map[string]bool{}
			for _, dir := range []string{"project", "tmp"} {
				entries, _ := os.ReadDir(filepath.Join(base, dir))
				for _, e := range entries {
					left[dir+"/"+e.Name()] = true
				}
			}
			if delete(left, "project/file"); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			until(t, "its processes to be gone", func() bool { return len(named(base)) == 0 }, func() string { return fmt.Sprint(named(base)) })
		})
	}
}

// startFiltered starts a program under a filter like the one that Docker has for
// containers without further rights.
func startFiltered(cmd *exec.Cmd) error {
	const (
		number, flags = 0, 16 // in struct seccomp_data: the call, the low half of its first argument
		allow         = 0x7fff0000
		refuse        = 0x00050000
		newNamespace  = 0x7e020000
	)
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: number, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE3, SkipTrue: 1},
		bpf.RetConstant{Val: refuse | uint32(unix.ENOSYS)},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE, SkipTrue: 4},
		bpf.LoadAbsolute{Off: flags, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: newNamespace, SkipTrue: 1},
		bpf.RetConstant{Val: refuse | uint32(unix.EPERM)},
		bpf.RetConstant{Val: allow},
	}
	for _, call := range []uint32{unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT,
		unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_KEYCTL, unix.SYS_BPF} {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: call, SkipTrue: 1}, bpf.RetConstant{Val: refuse | uint32(unix.EPERM)})
	}
	raw, err := bpf.Assemble(append(program, bpf.RetConstant{Val: allow}))
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its filter
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			fprog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
			err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&fprog)), 0, 0)
			runtime.KeepAlive(filter)
		}
		if err == nil {
			err = cmd.Start()
		}
		started <- err
	}()
	return <-started
}
