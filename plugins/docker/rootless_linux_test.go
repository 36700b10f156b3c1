package docker

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

// TestRootless has commands be who runs the daemon, and nobody else.
func TestRootless(t *testing.T) {
	t.Parallel()
	if !withRootless() {
		return
	}
	e := newEngine(t)
	probe, err := e.Probe(t.Context())
	if err != nil || !probe.Ready || probe.Facts["rootless"] != "yes" || len(probe.Degraded) != 4 {
		t.Errorf("got %+v, %v", probe, err)
	}
	ws := dir(t, "protected", ".env", "own")
	own := filepath.Join(ws, "own")
	if err := os.Chmod(own, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, shared.Spec{Options: rawOptions(t, opts{}), Table: []shared.Entry{
		{Source: ws, Path: ws, Access: shared.ReadWrite, Why: "workspace"},
		{Source: ws + "/protected", Path: ws + "/protected", Why: "protect_paths[0]", Access: shared.ReadOnly},
		hideAll(ws + "/.env")[0],
	}})
	cmd := script("cd " + ws + "; cat own; mkdir d; echo made > d/f; chown 5 d/f; echo no > protected; rm protected; mv protected p; umount " + ws + "/protected; cat .env; cat /proc/self/uid_map >&2")
	out := runCommand(t, s, cmd, "")
	if out.stdout != "own\n" {
		t.Errorf("got %+v", out)
	}
	for _, name := range []string{"d", "d/f"} {
		var st syscall.Stat_t
		if err := syscall.Lstat(filepath.Join(ws, name), &st); err != nil || int(st.Uid) != os.Getuid() || int(st.Gid) != os.Getgid() {
			t.Errorf("%s is of %d:%d, %v", name, st.Uid, st.Gid, err)
		}
	}
	if raw, err := os.ReadFile(ws + "/protected"); string(raw) != "protected\n" {
		t.Errorf("protected: %q, %v", raw, err)
	}
	if !slices.ContainsFunc(out.events, func(e shared.Event) bool {
		return e.Kind == shared.EventDegraded && strings.Contains(e.Message, "rootless")
	}) {
		t.Errorf("nobody says that the daemon is rootless: %v", out.events)
	}
	other := shared.User{UID: uint32(os.Getuid()) + 1}
	if _, err := e.Open(t.Context(), shared.Spec{User: &other, Options: rawOptions(t, opts{})}); !errors.Is(err, shared.ErrUnsupported) {
		t.Errorf("as somebody else: %v", err)
	}
}

// TestRootlessLimits asks for what takes control groups, where the daemon has none
// and would leave it out in silence.
func TestRootlessLimits(t *testing.T) {
	t.Parallel()
	if !withRootless() {
		return
	}
	e := newEngine(t)
	for name, limits := range map[string]shared.Limits{"memory": {Memory: 64 << 20}, "cpus": {CPUs: 0.5}, "pids": {PIDs: 20}} {
		_, err := e.Open(t.Context(), shared.Spec{Limits: limits, Options: rawOptions(t, opts{})})
		if !errors.Is(err, shared.ErrUnsupported) || !strings.HasPrefix(err.Error(), "limits."+name+": ") {
			t.Errorf("%s: %v", name, err)
		}
		limits.BestEffort = true
		out := sh(t, open(t, shared.Spec{Limits: limits}), "true")
		if !slices.ContainsFunc(out.events, func(e shared.Event) bool {
			return e.Details["limit"] == name && e.Details["hold"] == "not enforced"
		}) {
			t.Errorf("%s, with best effort: %v", name, out.events)
		}
	}
	out := sh(t, open(t, shared.Spec{Limits: shared.Limits{OpenFiles: 100, TempSize: 1 << 20}}), `ulimit -n; head -c 5000000 /dev/zero > /tmp/big; wc -c < /tmp/big`)
	if out.stdout != "100\n1048576\n" {
		t.Errorf("open files, and bytes in /tmp: %+v", out)
	}
	if !slices.ContainsFunc(out.events, func(e shared.Event) bool { return e.Details["attribute"] == "limits.pids" }) {
		t.Errorf("nobody says that processes are without bound: %v", out.events)
	}
}
