package cmdengine

import (
	"strings"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

const busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; dd if=/dev/zero of=/dev/null bs=64M count=1 2>/dev/null"

func used(t *testing.T, c Config, spec shared.Spec, script string, after func(shared.Process)) shared.Result {
	t.Helper()
	p, err := open(t, c, spec).Start(t.Context(), sh(script), shared.Stdio{})
	if err != nil {
		t.Fatal(err)
	}
	after(p)
	r, err := p.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestUsage(t *testing.T) {
	eachMode(t, func(t *testing.T, mode string) {
		run := func(script string) shared.Usage {
			r := used(t, config(mode), specFor(mode), script, func(shared.Process) {})
			if u := r.Usage; u.CPU <= 0 || u.CPU > 1024*r.Duration || u.Together {
				t.Errorf("%s: %+v of %v", script, u, r.Duration)
			}
			return r.Usage
		}
		idle, worked := run("exit 3"), run("("+strings.Replace(busy, "64M", "192M", 1)+")")
		if worked.CPU < 2*idle.CPU {
			t.Errorf("a shell that counts to 200000 used %v, one that ends %v", worked.CPU, idle.CPU)
		}
		// The kernel counts, of a child, what its starter had when it was forked: this program.
		if worked.Memory < 192<<20 || worked.Memory > 256<<20 || idle.Memory > 128<<20 || idle.Memory == 0 {
			t.Errorf("with 192 MiB: %d bytes, without: %d", worked.Memory, idle.Memory)
		}
	})
}

// Nobody has waited for what the init was told to kill: a part of it is not told as the whole.
func TestUsageOfTheKilled(t *testing.T) {
	t.Parallel()
	needs(t, inside)
	r := used(t, config(inside), specFor(inside), busy+"; sleep 1000", func(p shared.Process) {
		if err := p.Signal(t.Context(), syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	})
	if r.Status.Signal != syscall.SIGKILL || r.Usage != (shared.Usage{}) {
		t.Errorf("%+v", r)
	}
}

func TestUsageOfAGroup(t *testing.T) {
	t.Parallel()
	needs(t, inside)
	needsGroups(t)
	spec := shared.Spec{Limits: limited}
	r := used(t, limitedConfig(), spec, "("+busy+") & wait", func(shared.Process) {})
	if u := r.Usage; u.CPU <= 0 || u.Memory < 64<<20 || u.Memory > limited.Memory || !u.Together {
		t.Errorf("%+v", r)
	}
}
