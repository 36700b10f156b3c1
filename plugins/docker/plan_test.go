package docker

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sbxhost/sbxhost/shared"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func basePlanner() planner {
	return planner{
		spec: &shared.Spec{
			Home: "/home/me",
			Table: []shared.Entry{
				{Source: "/src/w", Path: "/workspace", Access: shared.ReadWrite, Why: "workspace"},
				{Source: "/src/w/.git/hooks", Path: "/workspace/.git/hooks", Why: "protected: hooks", Access: shared.ReadOnly},
			},
		},
		options: &options{Image: "x:1"},
		image:   imageFacts{id: "sha256:abc", name: "x:1"},
		self:    shared.User{UID: 1000, GID: 1001},
		memory:  1 << 30, initFile: "/lib/sbxhost-init", lineDir: "/run/sbxhost-1/line",
		labels: map[string]string{"l": "v"},
		daemon: daemonFacts{limitsMemory: true, limitsCPUs: true, limitsPIDs: true},
	}
}

// hide gives entries that hide what is at some paths.
func hide(paths ...string) []shared.Entry {
	table := make([]shared.Entry, len(paths))
	for i, p := range paths {
		table[i] = shared.Entry{Path: p, Access: shared.Hidden, Missing: shared.MissingIgnore, Why: "deny_paths[0]"}
	}
	return table
}

// TestPlanGolden holds what the daemon is asked for against files.
func TestPlanGolden(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*planner)
		hidden []shared.Entry
	}{
		"plain": {func(*planner) {}, nil},
		"everything": {func(p *planner) {
			p.spec.Network.Mode = shared.NetworkHost
			p.spec.User = &shared.User{UID: 7, GID: 8, Groups: []uint32{9, 10}}
			p.spec.Table = append(p.spec.Table,
				shared.Entry{Source: "/over", Path: "/over", Access: shared.Overlay, Degradable: true, Why: "bind_paths[0]"},
				shared.Entry{Path: "/scratch", Access: shared.Private, Why: "bind_paths[1]"})
			p.options.WritableRoot = true
			p.options.CapAdd = []string{"CAP_NET_RAW"}
			p.options.platform = &ocispec.Platform{OS: "linux", Architecture: "arm64"}
			p.limits = shared.Limits{Memory: 512 << 20, CPUs: 1.5, PIDs: 100, TempSize: 1 << 20}
			p.image.volumes = []string{"/var/lib/data", "/scratch"}
			p.daemon.recursiveRO, p.daemon.remapped = true, true
			p.caches = []cacheVolume{{name: "sbxhost-cache-0", inside: "/root/.npm", origin: "config.cache.paths[0]", labels: map[string]string{"l": "v"}}}
		}, hide("/workspace/.env", "/workspace/a,\"b\nc", "/over")},
		"rootless": {func(p *planner) {
			p.daemon.rootless = true
			p.spec.User = &shared.User{UID: 1000, GID: 1001, Groups: []uint32{1001}}
		}, nil},
		"podman": {func(p *planner) { p.daemon.podman = true }, hide("/workspace/.env", "/workspace/keys", "/home")},
		"compose": {func(p *planner) {
			p.spec.Network.Mode = shared.NetworkHost
			p.network = "project_default"
		}, nil},
	} {
		p := basePlanner()
		tt.change(&p)
		p.spec.Table = append(p.spec.Table, tt.hidden...)
		got, err := p.container([]string{"fetch", "/.sbxhost/line/s"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text, err := json.MarshalIndent(map[string]any{
			"Config": got.config, "HostConfig": got.host, "Mounts": got.ops,
		}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || string(want) != string(text)+"\n" {
			t.Errorf("%s differs (go test -update rewrites it), %v\n--- got\n%s", file, err, text)
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*planner)
		hidden string
	}{
		"over the image":   {func(p *planner) { p.spec.Table[0].Path = "/" }, ""},
		"into /dev":        {func(p *planner) { p.spec.Table[0].Path = "/dev/x" }, ""},
		"the init's":       {func(p *planner) { p.spec.Table[0].Path = "/.sbxhost" }, ""},
		"cache on a mount": {func(p *planner) { p.caches = []cacheVolume{{name: "c", inside: "/workspace"}} }, ""},
		"overlay":          {func(p *planner) { p.spec.Table[0].Access = shared.Overlay }, ""},
		"volume on /":      {func(p *planner) { p.image.volumes = []string{"/"} }, ""},
		"volume on init":   {func(p *planner) { p.image.volumes = []string{"/.sbxhost/x/../line"} }, ""},
		"hiding /":         {func(*planner) {}, "/"},
		"hiding /proc/x":   {func(*planner) {}, "/proc/x"},
		"hiding the init":  {func(*planner) {}, "/.sbxhost/init"},
	} {
		p := basePlanner()
		tt.change(&p)
		if tt.hidden != "" {
			p.spec.Table = append(p.spec.Table, hide(tt.hidden)...)
		}
		if _, err := p.container(nil); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}

func TestKeepable(t *testing.T) {
	t.Parallel()
	l := shared.Limits{Memory: 1, PIDs: 1}
	if _, err := holdable(daemonFacts{limitsPIDs: true}, &l); err == nil || !strings.HasPrefix(err.Error(), "limits.memory: ") {
		t.Errorf("got %v", err)
	}
	l.BestEffort = true
	out, err := holdable(daemonFacts{limitsPIDs: true}, &l)
	if err != nil || l.Memory != 0 || l.PIDs != 1 || len(out) != 1 || out[0].Details["hold"] != "not held" {
		t.Errorf("got %v, %v, %v", out, l, err)
	}
}

// What JSON would turn into another name is refused, wherever it stands.
func TestNamesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]shared.Spec{
		"source":      {Table: []shared.Entry{{Source: "/a\xff", Path: "/a", Why: "bind_paths[0]", Access: shared.ReadOnly}}},
		"destination": {Table: []shared.Entry{{Source: "/a", Path: "/a\xff", Why: "bind_paths[0]", Access: shared.ReadOnly}}},
		"home":        {Home: "/home/\xff"},
		"hidden":      {Table: hide("/a\xff")},
	} {
		p := planner{spec: &spec, options: &options{}}
		if _, err := p.container(nil); !errors.Is(err, shared.ErrInvalidSpec) || !strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// More processors than there are is no limit, where the daemon would refuse it.
func TestMoreProcessorsThanThereAre(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limit   float64
		machine int
		want    int64
	}{{0, 2, 0}, {0.5, 2, 5e8}, {4, 2, 2e9}, {4, 0, 4e9}} {
		if got := resources(shared.Limits{CPUs: tt.limit}, &daemonFacts{cpus: tt.machine}).NanoCPUs; got != tt.want {
			t.Errorf("%v of %d: %d", tt.limit, tt.machine, got)
		}
	}
}
