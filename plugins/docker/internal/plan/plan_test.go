package plan

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sbxhost/sbxhost/plugins/docker/internal/daemon"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/definition"
	"github.com/sbxhost/sbxhost/shared"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func basePlanner() Planner {
	return Planner{
		Spec: &shared.Spec{
			Home: "/home/me",
			Table: []shared.Entry{
				{Source: "/src/w", Path: "/workspace", Access: shared.ReadWrite, Why: "workspace"},
				{Source: "/src/w/.git/hooks", Path: "/workspace/.git/hooks", Why: "protected: hooks", Access: shared.ReadOnly},
			},
		},
		Options: &definition.Options{Image: "x:1"},
		Image:   Image{ID: "sha256:abc"},
		Self:    shared.User{UID: 1000, GID: 1001},
		Memory:  1 << 30, InitFile: "/lib/sbxhost-init", LineDir: "/run/sbxhost-1/line",
		Labels: map[string]string{"l": "v"},
		Daemon: daemon.Facts{Limits: map[string]bool{"memory": true, "cpus": true, "pids": true}},
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
		change func(*Planner)
		hidden []shared.Entry
	}{
		"plain": {func(*Planner) {}, nil},
		"everything": {func(p *Planner) {
			p.Spec.Network.Mode = shared.NetworkHost
			p.Spec.User = &shared.User{UID: 7, GID: 8, Groups: []uint32{9, 10}}
			p.Spec.Table = append(p.Spec.Table,
				shared.Entry{Source: "/over", Path: "/over", Access: shared.Overlay, Degradable: true, Why: "bind_paths[0]"},
				shared.Entry{Path: "/scratch", Access: shared.Private, Why: "bind_paths[1]"})
			p.Options.WritableRoot = true
			p.Options.CapAdd = []string{"CAP_NET_RAW"}
			p.Options.ImagePlatform = &ocispec.Platform{OS: "linux", Architecture: "arm64"}
			p.Limits = shared.Limits{Memory: 512 << 20, CPUs: 1.5, PIDs: 100, TempSize: 1 << 20}
			p.Image.Volumes = []string{"/var/lib/data", "/scratch"}
			p.Daemon.RecursiveRO, p.Daemon.Remapped = true, true
		}, hide("/workspace/.env", "/workspace/a,\"b\nc", "/over")},
		"rootless": {func(p *Planner) {
			p.Daemon.Rootless = true
			p.Spec.User = &shared.User{UID: 1000, GID: 1001, Groups: []uint32{1001}}
		}, nil},
	} {
		p := basePlanner()
		tt.change(&p)
		p.Spec.Table = append(p.Spec.Table, tt.hidden...)
		got, err := p.Container([]string{"fetch", "/.sbxhost/line/s"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text, err := json.MarshalIndent(map[string]any{
			"Config": got.Config, "HostConfig": got.Host, "Mounts": got.Ops,
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
		change func(*Planner)
		hidden string
	}{
		"over the image":  {func(p *Planner) { p.Spec.Table[0].Path = "/" }, ""},
		"into /dev":       {func(p *Planner) { p.Spec.Table[0].Path = "/dev/x" }, ""},
		"the init's":      {func(p *Planner) { p.Spec.Table[0].Path = "/.sbxhost" }, ""},
		"overlay":         {func(p *Planner) { p.Spec.Table[0].Access = shared.Overlay }, ""},
		"volume on /":     {func(p *Planner) { p.Image.Volumes = []string{"/"} }, ""},
		"volume on init":  {func(p *Planner) { p.Image.Volumes = []string{"/.sbxhost/x/../line"} }, ""},
		"hiding /":        {func(*Planner) {}, "/"},
		"hiding /proc/x":  {func(*Planner) {}, "/proc/x"},
		"into /sys":       {func(p *Planner) { p.Spec.Table[0].Path = "/sys/x" }, ""},
		"hiding the init": {func(*Planner) {}, "/.sbxhost/init"},
	} {
		p := basePlanner()
		tt.change(&p)
		if tt.hidden != "" {
			p.Spec.Table = append(p.Spec.Table, hide(tt.hidden)...)
		}
		if _, err := p.Container(nil); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	p := basePlanner()
	p.Spec.Table = append(p.Spec.Table, hide("/sys/firmware")...) // which other engines have
	if _, err := p.Container(nil); err != nil {
		t.Error(err)
	}
}

// What JSON would turn into another name is refused, wherever it stands.
func TestNamesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	odd := filepath.Join(dir, "a\xff")
	if err := os.Mkdir(odd, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]shared.Spec{
		"source":      {Table: []shared.Entry{{Source: odd, Path: "/a", Why: "bind_paths[0]", Access: shared.ReadOnly}}},
		"destination": {Table: []shared.Entry{{Source: dir, Path: "/a\xff", Why: "bind_paths[0]", Access: shared.ReadOnly}}},
		"home":        {Home: "/home/\xff"},
		"hidden":      {Table: hide("/a\xff")},
	} {
		p := Planner{Spec: &spec, Options: &definition.Options{}}
		if _, err := p.Checked("/no/socket"); !errors.Is(err, shared.ErrInvalidSpec) || !strings.Contains(err.Error(), "UTF-8") {
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
		if got := resources(shared.Limits{CPUs: tt.limit}, &daemon.Facts{CPUs: tt.machine}).NanoCPUs; got != tt.want {
			t.Errorf("%v of %d: %d", tt.limit, tt.machine, got)
		}
	}
}
