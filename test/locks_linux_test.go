package test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// withoutLocks runs a program for which no file can be locked, as on a network file system without
// a service for locks: flock, and fcntl's locks, fail with ENOLCK for it and all that it starts.
func withoutLocks(t *testing.T, cmd *exec.Cmd) (output string, err error) {
	t.Helper()
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	is := func(value uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jt: yes, Jf: no}
	}
	give := func(value uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value} }
	const command = 16 + 8 // the second argument, on machines of little endian
	filter := []unix.SockFilter{
		load(0), is(unix.SYS_FLOCK, 6, 0), is(unix.SYS_FCNTL, 0, 6),
		load(command), is(unix.F_SETLK, 3, 0), is(unix.F_SETLKW, 2, 0), is(unix.F_OFD_SETLK, 1, 0), is(unix.F_OFD_SETLKW, 0, 1),
		give(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOLCK)), give(unix.SECCOMP_RET_ALLOW),
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread, and its filter, end with the goroutine
		if err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return
		}
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); errno != 0 {
			err = errno
			return
		}
		err = cmd.Run()
	}()
	<-done
	return out.String(), err
}

// Where nothing can be locked, what must not be created cannot be held: the command is refused,
// by name and with what to do instead, which works. Where only the home cannot be written, all does.
func TestNoLocks(t *testing.T) {
	t.Parallel()
	bin, dir := t.TempDir(), t.TempDir()
	build(t, bin, "cmd/sbxhost", "plugins/native/sbxhost-engine-native", "cmd/sbxhost-init")
	work, home, config := filepath.Join(dir, "work"), filepath.Join(dir, "home"), filepath.Join(dir, "config.hcl")
	for _, sub := range []string{home, filepath.Join(work, ".git/objects"), filepath.Join(work, ".git/refs")} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write := func(file, text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(config, "sandbox \"writing\" {\n  engine = \"native\"\n}\nsandbox \"reading\" {\n  engine    = \"native\"\n  read_only = true\n}\n")
	write(filepath.Join(work, ".git/HEAD"), "ref: refs/heads/main\n")
	sbxhost := func(words ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, "sbxhost"), append([]string{"exec", "-config", config}, words...)...)
		cmd.Dir, cmd.Env = work, append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="+home+"/state", "XDG_CACHE_HOME="+home+"/cache", "SBX_SERVE=off")
		return cmd
	}
	script := []string{"--", "sh", "-c", "echo runs"}
	for range 2 {
		out, err := withoutLocks(t, sbxhost(append([]string{"-sandbox", "writing"}, script...)...))
		if err == nil || strings.Contains(out, "runs") || !strings.Contains(out, "files cannot be locked there") || !strings.Contains(out, "read_only = true") {
			t.Errorf("where nothing can be held: %v, %s", err, out)
		}
		if out, err = withoutLocks(t, sbxhost(append([]string{"-sandbox", "reading"}, script...)...)); err != nil || !strings.Contains(out, "runs\n") {
			t.Errorf("where nothing need be held: %v, %s", err, out)
		}
	}
	out, err := withoutLocks(t, sbxhost(append([]string{"-sandbox", "reading", "-session", "named"}, script...)...))
	if err == nil || !strings.Contains(out, "session directory: lock ") {
		t.Errorf("a session that cannot be locked: %v, %s", err, out)
	}
	if left, err := filepath.Glob(work + "/.[a-fh-z]*"); err != nil || len(left) > 0 {
		t.Errorf("left in the workspace: %q, %v", left, err)
	}

	requireBwrap(t) // for a home that is another mount
	cmd := sbxhost(append([]string{"-sandbox", "writing"}, script...)...)
	inner := append([]string{"bwrap", "--dev-bind", "/", "/", "--ro-bind", home, home, "--"}, cmd.Args...)
	again := exec.Command(inner[0], inner[1:]...)
	again.Dir, again.Env = cmd.Dir, cmd.Env
	if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), "runs\n") {
		t.Errorf("with a home that cannot be written: %v, %s", err, out)
	}
	if left, err := filepath.Glob(work + "/.git/commondir"); err != nil || len(left) > 0 {
		t.Errorf("left in the workspace: %q, %v", left, err)
	}
}
