package cmdengine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/engine/cgroup"
	"github.com/sbxhost/sbxhost/shared"
)

func TestHoldings(t *testing.T) {
	t.Parallel()
	every := shared.Limits{Memory: 1 << 30, CPUs: 2, PIDs: 100}
	groups := func(c ...cgroup.Controller) cgroup.Host {
		return cgroup.Host{Places: []cgroup.Place{{Version: 2, Dir: "/v2", Controllers: c}}}
	}
	for _, tt := range []struct {
		name    string
		host    cgroup.Host
		limits  shared.Limits
		uid     uint32
		want    string
		refused string // the attribute, where the limits are required
	}{
		{"groups", groups(cgroup.Memory, cgroup.CPU, cgroup.PIDs), every, 0,
			"memory enforced cgroup v2, cpus enforced cgroup v2, pids enforced cgroup v2", ""},
		{"no groups", cgroup.Host{}, every, 1000, "memory approximated RLIMIT_DATA, cpus not enforced, pids approximated RLIMIT_NPROC", "limits.memory"},
		{"no groups, root", cgroup.Host{}, every, 0, "memory approximated RLIMIT_DATA, cpus not enforced, pids not enforced", "limits.memory"},
		{"no processor time", groups(cgroup.Memory, cgroup.PIDs), every, 1000, "memory enforced cgroup v2, cpus not enforced, pids enforced cgroup v2", "limits.cpus"},
		{"no processes", groups(cgroup.Memory), shared.Limits{PIDs: 50}, 1000, "pids approximated RLIMIT_NPROC", "limits.pids"},
		{"nothing set", groups(cgroup.Memory), shared.Limits{OpenFiles: 5}, 0, "", ""},
	} {
		d := tt.host.Decide(cgroup.Limits{Memory: tt.limits.Memory, CPUs: tt.limits.CPUs, PIDs: tt.limits.PIDs})
		hs := holdings(tt.limits, d, tt.uid)
		var got []string
		for _, h := range hs {
			got = append(got, strings.TrimSpace(fmt.Sprint(h.limit, " ", h.hold(), " ", h.mechanism)))
		}
		if s := strings.Join(got, ", "); s != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, s, tt.want)
		}
		err := admitLimits(tt.limits, hs)
		if tt.refused == "" && err != nil || tt.refused != "" && (!errors.Is(err, shared.ErrUnsupported) || !strings.HasPrefix(err.Error(), tt.refused+": ")) {
			t.Errorf("%s: %v, want a refusal of %q", tt.name, err, tt.refused)
		}
		lax := tt.limits
		lax.BestEffort = true
		if err := admitLimits(lax, hs); err != nil {
			t.Errorf("%s, best effort: %v", tt.name, err)
		}
	}
	hs := holdings(shared.Limits{Memory: 5, PIDs: 5}, groups(cgroup.Memory, cgroup.PIDs).Decide(cgroup.Limits{Memory: 5, PIDs: 5}), 0)
	for _, l := range []shared.Limits{{Memory: 5, PIDs: 100}, {Memory: 1 << 30, PIDs: 5, BestEffort: true}} {
		if err := admitLimits(l, hs); !errors.Is(err, shared.ErrInvalidSpec) {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

func TestLimitEvents(t *testing.T) {
	t.Parallel()
	for h, want := range map[holding]string{
		{"memory", "cgroup v2"}: "limits.memory is enforced by cgroup v2",
		{"pids", rlimitPIDs}:    "limits.pids is approximated by RLIMIT_NPROC",
		{"cpus", ""}:            "limits.cpus is not enforced",
	} {
		e := h.event()
		if e.Kind != shared.EventLimit || e.Message != want || e.Details["limit"] != h.limit || e.Details["hold"] != h.hold() || e.Details["mechanism"] != h.mechanism {
			t.Errorf("%+v: %+v", h, e)
		}
	}
}
