package main

import (
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared/cmdengine/cgroup"
)

// What doctor says of groups is what the engines decide: a group that can be made and
// limits nothing is none, and systemd's are some.
func TestDoctorHeldLimits(t *testing.T) {
	t.Parallel()
	all := []cgroup.Controller{cgroup.Memory, cgroup.CPU, cgroup.PIDs}
	for _, tt := range []struct {
		name  string
		host  cgroup.Host
		state string
		found string
		lacks string
	}{
		{"nothing", cgroup.Host{}, stateLimited, "no group can be had", "limits.memory, limits.cpus, limits.pids: "},
		{"version 2", cgroup.Host{Places: []cgroup.Place{{Version: 2, Dir: "/x", Controllers: all}}}, stateOK, "limits.cpus by cgroup v2", ""},
		{"no cpu", cgroup.Host{Manager: &cgroup.Manager{Controllers: []cgroup.Controller{cgroup.Memory, cgroup.PIDs}}}, stateLimited, "limits.memory by systemd scope, limits.pids by systemd scope", "limits.cpus: "},
		{"a group without controllers", cgroup.Host{Places: []cgroup.Place{{Version: 2, Dir: "/x"}}}, stateLimited, "no group can be had", "limits.memory"},
	} {
		f := heldLimits(tt.host)
		if f.State != tt.state || !strings.Contains(f.Found, tt.found) || !strings.HasPrefix(f.Consequence, tt.lacks) || (f.Fix == "") != (tt.lacks == "") {
			t.Errorf("%s: %+v", tt.name, f)
		}
	}
}

func TestAppArmorFix(t *testing.T) {
	t.Parallel()
	want := "profile sbxhost {/opt/x-1.0/sbxhost,/opt/x-1.0/sbxhost-engine-native} flags=(unconfined) { userns, }"
	if got := appArmorFix("/opt/x-1.0/sbxhost", nil); !strings.Contains(got, want) {
		t.Errorf("%q lacks %q", got, want)
	}
	for _, program := range []string{"/home/a b/sbxhost", "/home/{a,b}/sbxhost", "/home/*/sbxhost", "/tmp/\nprofile x { }/sbxhost", "/home/\"/sbxhost"} {
		if got := appArmorFix(program, nil); got != appArmorOff {
			t.Errorf("%q: %q", program, got)
		}
	}
}
