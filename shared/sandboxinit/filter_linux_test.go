package sandboxinit

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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
		cmd := Command{Args: []string{"true"}, Filter: make([]byte, n)}
		if err := cmd.validate(); err == nil || !strings.Contains(err.Error(), "filter") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
