package sandboxinit

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit/confine"
)

// filterOf makes a program: load the call's number; if it is n, refuse it.
func filterOf(n uint32) []byte {
	var b []byte
	for _, i := range []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: n, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	} {
		b = binary.NativeEndian.AppendUint16(b, i.Code)
		b = append(b, i.Jt, i.Jf)
		b = binary.NativeEndian.AppendUint32(b, i.K)
	}
	return b
}

// The filter binds the command and what it starts, with and without the stage
// for limits, and the init goes on: it reports the end.
func TestFilter(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		for _, limits := range limitSets {
			cmd := sh("grep -e NoNewPrivs -e Seccomp: /proc/self/status; kill -0 $$ && echo leaked; exit 3")
			cmd.Rlimits = limits
			if r := w.run(t, cmd); !strings.Contains(r.stdout, "leaked") {
				t.Errorf("the control: %q", r.stdout)
			}
			cmd.Filter = filterOf(unix.SYS_KILL)
			r := w.run(t, cmd)
			if strings.Contains(r.stdout, "leaked") || !strings.Contains(r.stdout, "NoNewPrivs:\t1") || !strings.Contains(r.stdout, "Seccomp:\t2") || r.status.Code != 3 {
				t.Errorf("limits %v: %+v", limits, r)
			}
		}
	})
}

// A kernel that does not take the filter does not get the command.
func TestFilterRefused(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		cmd := sh("echo ran")
		cmd.Filter = make([]byte, 8) // does not end with a return
		r := w.run(t, cmd)
		refused, ok := errors.AsType[*ExecError](r.err)
		if !ok || refused.Op != OpFilter || refused.Errno != unix.EINVAL || r.stdout != "" {
			t.Errorf("%+v", r)
		}
	})
}

func TestFilterForm(t *testing.T) {
	for _, n := range []int{7, 9, maxFilter + 8} {
		cmd := Command{Args: []string{"true"}, Confinement: Confinement{Filter: make([]byte, n)}}
		if err := cmd.validate(); err == nil || !strings.Contains(err.Error(), "filter") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// An init that waits is told what its command is kept from before there is one, once.
func TestConfinedBefore(t *testing.T) {
	t.Parallel()
	var root unix.Stat_t
	if err := unix.Stat("/", &root); err != nil {
		t.Fatal(err)
	}
	about := func(ino uint64) *Confinement {
		all := confine.Rule{Path: "/", Access: unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE, Dev: root.Dev, Ino: ino}
		return &Confinement{Landlock: &confine.Landlock{Handled: all.Access, Rules: []confine.Rule{all}}}
	}
	filter := Confinement{Filter: filterOf(unix.SYS_KILL)}
	command := sh("kill -0 $$ && echo leaked; exit 3")
	for name, c := range map[string]struct {
		before         *Confinement
		confinedThread bool        // what the command says
		own            Confinement // of the command
		fails          error
	}{
		"a filter":              {before: &filter, confinedThread: true},
		"a domain":              {before: about(root.Ino), confinedThread: true},
		"another file":          {before: about(root.Ino + 1), confinedThread: true, fails: &ExecError{OpLandlock, "/", unix.ESTALE}},
		"a filter that is none": {before: &Confinement{Filter: make([]byte, 8)}, confinedThread: true, fails: &ExecError{OpFilter, "", unix.EINVAL}},
		"no filter's form":      {before: &Confinement{Filter: make([]byte, 7)}, confinedThread: true, fails: ErrInitLost},
		"not before":            {own: filter},
		"twice":                 {before: &filter, own: filter, fails: ErrInitLost},
		"never":                 {confinedThread: true, fails: ErrInitLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, out := startWaiting(t)
			if c.before != nil {
				if err := conn.Confine(c.before); err != nil {
					t.Fatal(err)
				}
			}
			null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer null.Close()
			if err := conn.Complete([3]*os.File{null, out.w, null}, nil); err != nil {
				t.Fatal(err)
			}
			out.w.Close()
			cmd := command
			cmd.Confined, cmd.Confinement = c.confinedThread, c.own
			err = conn.Start(t.Context(), cmd)
			if !errors.Is(err, c.fails) && !reflect.DeepEqual(err, c.fails) {
				t.Fatalf("got %v, want %v", err, c.fails)
			}
			if err != nil {
				return
			}
			text, err := io.ReadAll(out.r)
			if err != nil {
				t.Fatal(err)
			}
			filtered := c.before == &filter || c.own.Filter != nil
			if leaked := string(text) == "leaked\n"; leaked == filtered || !leaked && len(text) > 0 {
				t.Errorf("the command says %q", text)
			}
			if status, err := conn.Wait(); err != nil || status.Code != 3 || !status.Alone {
				t.Errorf("%+v, %v", status, err)
			}
		})
	}
}

type ends struct{ r, w *os.File }

// startWaiting starts an init that waits for a command, whose output can be read.
func startWaiting(t *testing.T) (*Conn, ends) {
	t.Helper()
	ours, theirs, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	argv := Argv(3, 4)
	cmd := &exec.Cmd{Path: argv[0], Args: argv, Env: []string{}, Dir: "/", ExtraFiles: []*os.File{self, theirs}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	conn := NewConn(ours)
	t.Cleanup(func() {
		conn.Close()
		cmd.Wait() // how it ends is its own business
	})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return conn, ends{r, w}
}
