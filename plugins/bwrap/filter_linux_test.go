package bwrap

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/internal/testing/programs"
	"github.com/sbxhost/sbxhost/plugins/internal/inside"
	"github.com/sbxhost/sbxhost/shared"
)

// attemptOutside runs the attempts without a sandbox.
func attemptOutside(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run", "^TestInsideFilter$")
	cmd.Env = append(os.Environ(), filterVar+"="+inside.Workspace(t))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// program32 is an executable for 32-bit x86 that calls exit(42).
func program32() []byte {
	const base = 0x08048000
	code := []byte{0xb8, 1, 0, 0, 0, 0xbb, 42, 0, 0, 0, 0xcd, 0x80} // mov eax, 1; mov ebx, 42; int 0x80
	const headers = 52 + 32
	size := uint32(headers + len(code))
	b := append([]byte("\x7fELF\x01\x01\x01"), make([]byte, 9)...)
	u16 := func(vs ...uint16) {
		for _, v := range vs {
			b = binary.LittleEndian.AppendUint16(b, v)
		}
	}
	u32 := func(vs ...uint32) {
		for _, v := range vs {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
	}
	u16(2, 3) // executable, 386
	u32(1, base+headers, 52, 0, 0)
	u16(52, 32, 1, 0, 0, 0)
	u32(1, 0, base, base, size, size, 5, 0x1000) // one loaded segment, readable and executable
	return append(b, code...)
}

// The numbers of 32-bit calls are others, and not filtered by number at all.
func TestFilterKills32Bit(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	dir := inside.Workspace(t)
	program := filepath.Join(dir, "program32")
	if err := programs.Write(program, program32()); err != nil {
		t.Fatal(err)
	}
	err := exec.Command(program).Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 42 {
		t.Skipf("this kernel runs no programs for 32-bit x86: %v", err)
	}
	spec := shared.Spec{Table: []shared.Entry{inside.BindRW(dir)}}
	if out := inside.Run(t, e, spec, shared.Command{Args: []string{program}}); out.Status.Signal != syscall.SIGSYS {
		t.Errorf("%v, want SIGSYS", out.Status)
	}
}

// What people do inside works under the filter. That Go builds is tried by the scripts, under the
// same.
func TestFilterLetsToolsWork(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	dir := inside.Workspace(t)
	inside.Write(t, dir+"/manager.py", `import multiprocessing
if __name__ == "__main__":
    with multiprocessing.Manager() as m:
        l = m.list([1, 2])
        l.append(3)
        print(list(l))
`)
	inside.Write(t, dir+"/hello.c", "#include <stdio.h>\nint main(void) { puts(\"compiled\"); return 0; }\n")
	plain := shared.Spec{Home: "/home/u", Table: []shared.Entry{inside.BindRW(dir)}}
	with := func(options string) shared.Spec {
		s := plain
		s.Options = []byte(options)
		return s
	}
	nested := "unshare -Urm sh -c 'mount -t tmpfs x /tmp && echo mounted'"
	if os.Geteuid() == 0 {
		// The kernel lets nobody without capabilities map the user that is root outside.
		nested = "unshare -U echo mounted"
	}
	for _, tt := range []struct {
		tool string
		spec shared.Spec
		text string
		want string
	}{
		{"/usr/bin/gcc", plain, "gcc -o hello.out hello.c && ./hello.out", "compiled"},
		{"/usr/bin/python3", plain, "/usr/bin/python3 manager.py", "[1, 2, 3]"},
		{"/usr/bin/python3", with(`{"unix_sockets":false}`), "/usr/bin/python3 manager.py 2>&1 | grep -o 'Operation not permitted' | sort -u", "Operation not permitted"},
		{"/usr/bin/python3", with(`{"unix_sockets":false}`), `/usr/bin/python3 -c 'import multiprocessing; print(multiprocessing.Pool(2).map(abs, [-3]))'`, "[3]"},
		{"/usr/bin/node", plain, `node -e 'require("child_process").exec("echo child", (e, out) => console.log(String(e), out.trim()))'`, "null child"},
		{"/usr/bin/node", with(`{"unix_sockets":false}`), `node -e 'require("child_process").exec("echo child", (e, out) => console.log(String(e), out.trim()))'`, "null child"},
		{"/usr/bin/npm", plain, `HOME=/home/u npm --version | grep -c '^[0-9]'`, "1"},
		{"/usr/bin/git", plain, "git init -q repo && cd repo && git -c user.name=a -c user.email=b commit -q --allow-empty -m x && git log --format=%s", "x"},
		{"/usr/bin/tar", plain, "mkdir -p t/u && echo x > t/u/v && tar cf t.tar t && rm -r t && tar xf t.tar && cat t/u/v", "x"},
		{"/usr/bin/gdb", plain, `gdb -nx -batch -ex run /bin/true 2>&1 | grep -c 'exited normally'; true`, "0"},
		{"/usr/bin/gdb", with(`{"ptrace":true}`), `gdb -nx -batch -ex run /bin/true 2>&1 | grep -c 'exited normally'; true`, "1"},
		{"/usr/bin/strace", plain, `strace -e trace=none /bin/true 2>&1 | grep -c 'exited with 0'; true`, "0"},
		{"/usr/bin/strace", with(`{"ptrace":true}`), `strace -f -e trace=none /bin/true 2>&1 | grep -c 'exited with 0'; true`, "1"},
		{"/usr/bin/unshare", plain, "unshare -U true 2>&1 | grep -o 'Operation not permitted'", "Operation not permitted"},
		{"/usr/bin/unshare", with(`{"nested_userns":true}`), nested, "mounted"},
	} {
		if _, err := os.Stat(tt.tool); err != nil {
			t.Logf("%s is not installed", tt.tool)
			continue
		}
		t.Run(filepath.Base(tt.tool)+string(tt.spec.Options), func(t *testing.T) {
			t.Parallel()
			inside.Expect(t, e, tt.spec, "cd "+dir+" && "+tt.text, tt.want)
		})
	}
}

func TestFilterIsExplained(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	documents := func(options string) string {
		sandbox, err := e.Open(t.Context(), shared.Spec{Options: []byte(options)})
		if err != nil {
			t.Fatal(err)
		}
		defer sandbox.Close(t.Context())
		plan, err := sandbox.Plan(t.Context(), shared.Command{Args: []string{"true"}, Dir: "/"})
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Documents) != 1 || plan.Documents[0].Name != "system calls" {
			t.Fatalf("documents: %+v", plan.Documents)
		}
		return plan.Documents[0].Text
	}
	if text := documents(""); !strings.Contains(text, "\nptrace, ") || strings.Contains(text, "unix_sockets") {
		t.Errorf("plain:\n%s", text)
	}
	if text := documents(`{"ptrace":true,"unix_sockets":false,"nested_userns":null}`); strings.Contains(text, "\nptrace, ") || !strings.Contains(text, "unix_sockets") || !strings.Contains(text, "setns") {
		t.Errorf("with options:\n%s", text)
	}
	for _, bad := range []string{`{"ptrace":"yes"}`, `{"unix_sockets":0}`, `{"nested_userns":[]}`} {
		if _, err := e.Open(t.Context(), shared.Spec{Options: []byte(bad)}); !errors.Is(err, shared.ErrInvalidSpec) || !strings.HasPrefix(err.Error(), "config.") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
