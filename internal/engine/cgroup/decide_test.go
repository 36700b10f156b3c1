package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	v2all   = Place{2, "/v2", []Controller{Memory, CPU, PIDs}}
	v2some  = Place{2, "/v2", []Controller{Memory, PIDs}}
	v1mem   = Place{1, "/memory", []Controller{Memory}}
	v1cpu   = Place{1, "/cpu", []Controller{CPU}}
	v1pids  = Place{1, "/pids", []Controller{PIDs}}
	session = &Manager{Bus: "/usr/bin/busctl", RuntimeDir: "/run/user/1000", Controllers: []Controller{Memory, PIDs}}
)

func TestDecide(t *testing.T) {
	t.Parallel()
	every := Limits{Memory: 1 << 30, CPUs: 1.5, PIDs: 100}
	const one, two, scope = "cgroup v1", "cgroup v2", "systemd scope"
	for _, tt := range []struct {
		name              string
		host              Host
		limits            Limits
		memory, cpu, pids string
	}{
		{"nothing here", Host{}, every, "", "", ""},
		{"nothing asked", Host{Places: []Place{v2all}}, Limits{}, "", "", ""},
		{"version 2", Host{Places: []Place{v2all}}, every, two, two, two},
		{"what is asked alone", Host{Places: []Place{v2all}}, Limits{PIDs: 5}, "", "", two},
		{"version 1", Host{Places: []Place{v1mem, v1cpu, v1pids}}, every, one, one, one},
		{"hybrid", Host{Places: []Place{v2some, v1cpu, v1pids}}, every, two, one, two},
		{"part of it", Host{Places: []Place{v1mem}}, every, one, "", ""},
		{"by systemd alone", Host{Manager: session}, every, scope, "", scope},
		{"systemd is not asked without need", Host{Places: []Place{v2all}, Manager: session}, every, two, two, two},
		{"systemd holds more", Host{Places: []Place{v1mem}, Manager: session}, every, scope, "", scope},
		{"systemd holds no more", Host{Places: []Place{v2some}, Manager: session}, every, two, "", two},
		{"systemd without what is asked", Host{Manager: session}, Limits{CPUs: 1}, "", "", ""},
	} {
		d := tt.host.Decide(tt.limits)
		got := []string{d.Mechanism(Memory), d.Mechanism(CPU), d.Mechanism(PIDs)}
		if want := []string{tt.memory, tt.cpu, tt.pids}; !slices.Equal(got, want) {
			t.Errorf("%s: memory, cpu, pids: %q, want %q", tt.name, got, want)
		}
		if (len(d.parts) == 0 && d.via == nil) != (tt.memory+tt.cpu+tt.pids == "") {
			t.Errorf("%s: Empty is %v", tt.name, (len(d.parts) == 0 && d.via == nil))
		}
	}
}

func TestHierarchies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, mounts, groups, want string }{
		{"unified", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n",
			"0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope\n",
			"2 /sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope []"},
		{"hybrid", "1 2 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
			"3 2 0:2 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n" +
			"4 2 0:3 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n" +
			"5 2 0:4 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n",
			"9:memory:/a/b\n8:cpu,cpuacct:/\n1:name=systemd:/s\n0::/u\n",
			"2 /sys/fs/cgroup/unified/u []; 1 /sys/fs/cgroup/memory/a/b [memory]; 1 /sys/fs/cgroup/cpu,cpuacct [cpu]"},
		{"a container sees its own part", "1 2 0:1 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			"9:memory:/docker/abc/d\n", "1 /sys/fs/cgroup/memory/d [memory]"},
		{"another part is mounted", "1 2 0:1 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			"9:memory:/docker/abcd\n", ""},
		{"outside of the namespace", "1 2 0:1 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/../x\n", ""},
		{"spaces", "1 2 0:1 / /a\\040b\\134 ro - cgroup2 cgroup rw\n", "0::/x\n", `2 /a b\/x []`},
		{"nonsense", "\n - \n1 2 3 4 5 - cgroup2\nx - cgroup2 y z\n", "::\n0:\n0::x\n", ""},
	} {
		var got []string
		for _, h := range hierarchies(tt.mounts, tt.groups) {
			controllers := []string{}
			for _, c := range h.controllers {
				controllers = append(controllers, string(c))
			}
			got = append(got, string(rune('0'+h.version))+" "+h.ownGroup+" ["+strings.Join(controllers, " ")+"]")
		}
		if s := strings.Join(got, "; "); s != tt.want {
			t.Errorf("%s:\n got: %s\nwant: %s", tt.name, s, tt.want)
		}
	}
}

// Whatever the kernel's files hold, a group is looked for beneath a mount of cgroups alone.
func FuzzHierarchies(f *testing.F) {
	f.Add("30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/user.slice\n")
	f.Add("1 2 0:1 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", "9:memory:/docker/abc/d\n")
	f.Add("1 2 0:1 / /a\\040b ro - cgroup2 cgroup rw\n", "0::/../x\n")
	f.Add("1 2 0:1 /.. /x ro - cgroup2 cgroup rw\n", "0::/../x/../../etc\n")
	f.Fuzz(func(t *testing.T, mounts, groups string) {
		for _, h := range hierarchies(mounts, groups) {
			mount := filepath.Clean(h.mount)
			if h.ownGroup != mount && !strings.HasPrefix(h.ownGroup, strings.TrimSuffix(mount, "/")+"/") {
				t.Errorf("%q is not beneath %q", h.ownGroup, h.mount)
			}
			if h.version != 2 && len(h.controllers) == 0 {
				t.Errorf("%+v has no controllers", h)
			}
		}
	})
}

func TestMain(m *testing.M) {
	// The process that a group is made of, in the tests of real ones.
	if len(os.Args) > 1 && os.Args[1] == sleeperArg {
		sleeper()
	}
	os.Exit(m.Run())
}
