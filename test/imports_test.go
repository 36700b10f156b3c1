package test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/paths"
)

const module = "github.com/sbxhost/sbxhost"

// listed is the part of `go list -json` that the rules need.
type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

// A rule says what the packages that match one pattern may import directly.
// The first rule that matches a package is its rule.
type rule struct {
	packages string
	// ours are the patterns of this module's packages that may be imported.
	ours []string
	// others are the prefixes of foreign modules; nil means any that no rule
	// of exclusive reserves.
	others []string
	// pure packages look at nothing: they import nothing that could.
	pure bool
}

var rules = []rule{
	{packages: "paths", others: []string{}, pure: true},
	{packages: "hostpath", others: []string{"golang.org/x/sys"}},
	{packages: "workspace", ours: []string{"hostpath"}, others: []string{"golang.org/x/sys"}},
	{packages: "sessiondir", ours: []string{"hostpath"}, others: []string{"golang.org/x/sys"}},
	{packages: "glob", others: []string{}},
	{packages: "scan", ours: []string{"glob", "hostpath"}, others: []string{"golang.org/x/sys"}},
	{packages: "stubs", ours: []string{"hostpath"}, others: []string{"golang.org/x/sys"}},
	{packages: "policy", ours: []string{"shared"}, others: []string{}},
	{packages: "approvals", others: []string{"golang.org/x/sys"}},
	{packages: "audit", others: []string{"golang.org/x/sys"}},
	{packages: "shared/frame", others: []string{"golang.org/x/sys"}},
	{packages: "shared/holder", ours: []string{"shared/frame"}, others: []string{"golang.org/x/sys"}},
	{packages: "shared/sandboxinit", ours: []string{"hostpath", "shared/frame", "shared/holder"}, others: []string{"golang.org/x/sys"}},
	{packages: "shared/sandboxinit/sbxhost-init", ours: []string{"shared/sandboxinit"}, others: []string{}},
	{packages: "shared/enginepb", others: []string{"google.golang.org/grpc", "google.golang.org/protobuf"}},
	{packages: "shared", ours: []string{"shared/enginepb", "shared/sandboxinit"}},
	{packages: "shared/cmdengine/cgroup", others: []string{"golang.org/x/sys"}},
	{packages: "shared/cmdengine", ours: []string{"shared", "shared/sandboxinit", "shared/holder", "shared/cmdengine/cgroup"}, others: []string{"golang.org/x/sys"}},
	{packages: "shared/enginetest", ours: []string{"shared", "shared/sandboxinit"}, others: []string{"golang.org/x/sys"}},
	{packages: "shared/seccomp", others: []string{"golang.org/x/net/bpf"}},
	{packages: "shared/mountplan", ours: []string{"hostpath", "shared", "shared/holder"}, others: []string{"golang.org/x/sys"}},
	{packages: "shared/nsengine", ours: []string{"shared", "shared/cmdengine/cgroup", "shared/sandboxinit", "shared/seccomp"}, others: []string{"golang.org/x/sys"}},
	{packages: "plugins/native", ours: []string{"shared", "shared/cmdengine", "shared/cmdengine/cgroup", "shared/holder", "shared/mountplan", "shared/nsengine", "shared/sandboxinit"}},
	{packages: "plugins/bwrap", ours: []string{"hostpath", "shared", "shared/cmdengine", "shared/cmdengine/cgroup", "shared/mountplan", "shared/nsengine", "shared/sandboxinit"}},
	{packages: "plugins/docker", ours: []string{"hostpath", "shared", "shared/cmdengine", "shared/sandboxinit", "shared/seccomp"}},
	{packages: "plugins/seatbelt", ours: []string{"glob", "hostpath", "shared", "shared/cmdengine", "shared/sandboxinit"}},
	{packages: "plugins/*", ours: []string{"hostpath", "shared", "shared/cmdengine", "shared/sandboxinit"}},
	{packages: "plugins/internal/inside", ours: []string{"shared"}, others: []string{}}, // for tests alone
	{packages: "plugins/*/sbxhost-engine-*", ours: []string{"shared", "plugins/*"}, others: []string{}},
	{packages: "host/view", ours: []string{"hostpath", "workspace", "glob", "scan", "shared"}, others: []string{}, pure: true},
	{packages: "host/env", ours: []string{"host/view", "shared"}, others: []string{}, pure: true},
	{packages: "host/stdio", ours: []string{"shared"}, others: []string{"github.com/creack/pty", "golang.org/x/sys"}},
	{packages: "host/facts", ours: []string{"host/env", "host/view", "approvals", "glob", "hostpath", "scan", "sessiondir", "shared", "stubs", "workspace"}, others: []string{"github.com/hashicorp/go-hclog", "golang.org/x/sys"}},
	{packages: "host/session", ours: []string{"host/view", "hostpath", "sessiondir", "workspace", "shared"}, others: []string{"github.com/hashicorp/go-hclog"}},
	{packages: "host", ours: []string{"host/*", "hostpath", "policy", "approvals", "audit", "sessiondir", "workspace", "stubs", "shared", "shared/sandboxinit"}},
	{packages: "config", ours: []string{"host", "host/env", "host/view", "policy", "audit", "shared", "glob"}},
	{packages: "telemetry", others: []string{}},
	{packages: "cmd/sbxhost", ours: []string{"hostpath", "config", "host", "host/view", "policy", "approvals", "audit", "shared", "shared/cmdengine/cgroup", "shared/enginetest", "shared/sandboxinit", "plugins/*", "telemetry"}},
	{packages: "cmd/sbxhost-telemetry", ours: []string{"telemetry"}, others: []string{"go.opentelemetry.io/otel", "github.com/go-logr/logr"}},
	{packages: "test", ours: []string{}},
	{packages: "docs/man", others: []string{}},
	{packages: "docs/examples/sbxhost-engine-*", ours: []string{"shared", "shared/cmdengine", "shared/seccomp"}, others: []string{}},
	{packages: "docs/examples/*", ours: []string{"config", "host", "shared", "shared/cmdengine", "plugins/native"}},
	{packages: "test/bench", ours: []string{"host", "shared", "shared/*"}, others: []string{}},
	{packages: "test/*", ours: []string{"host", "shared", "shared/*", "plugins/*"}},
}

// exclusive are foreign modules that one room alone may import.
var exclusive = map[string][]string{
	"github.com/hashicorp/hcl/v2":     {"config", "docs/examples/ownformat"},
	"github.com/zclconf/go-cty":       {"config"},
	"google.golang.org/protobuf":      {"shared", "shared/enginepb"},
	"google.golang.org/grpc":          {"shared", "shared/enginepb"},
	module + "/shared/enginepb":       {"shared"},
	"github.com/rogpeppe/go-internal": {}, // tests alone
	"github.com/hashicorp/go-plugin":  {"shared", "host"},
	"go.opentelemetry.io/otel":        {"cmd/sbxhost-telemetry"},
	"github.com/moby":                 {"plugins/docker", "test/dockerd"},
}

// never are what an engine's executable must not link, however indirectly: it
// would cost every command its initialisation.
var never = []string{
	"github.com/hashicorp/hcl", "github.com/zclconf/go-cty", "go.opentelemetry.io/otel/exporters",
	module + "/host", module + "/config", module + "/workspace", module + "/sessiondir", module + "/policy", module + "/approvals", module + "/audit",
}

func TestImportRules(t *testing.T) {
	t.Parallel()
	for _, goos := range []string{"linux", "darwin"} {
		t.Run(goos, func(t *testing.T) {
			t.Parallel()
			matched := map[string]bool{}
			for _, pkg := range list(t, goos, "work") {
				if paths.Inside(module+"/examples", pkg.ImportPath) {
					continue // what others write
				}
				name := strings.TrimPrefix(strings.TrimPrefix(pkg.ImportPath, module), "/")
				r, ok := ruleFor(name)
				if !ok {
					t.Errorf("%s: no rule covers this package: say in rules what it may import", name)
					continue
				}
				matched[r.packages] = true
				for _, imported := range pkg.Imports {
					if err := r.allows(name, imported); err != nil {
						t.Errorf("%s imports %s: %v", name, imported, err)
					}
				}
				if name == "cmd/sbxhost" {
					for _, dep := range pkg.Deps {
						if paths.Inside("go.opentelemetry.io", dep) || paths.Inside("github.com/moby", dep) {
							t.Errorf("%s links %s, which costs every command its initialisation", name, dep)
						}
					}
				}
				if strings.HasPrefix(path.Base(name), "sbxhost-engine-") || path.Base(name) == "sbxhost-init" {
					for _, dep := range pkg.Deps {
						if paths.Inside("github.com/moby", dep) && path.Base(name) != "sbxhost-engine-docker" {
							t.Errorf("%s links %s", name, dep)
						}
						for _, bad := range never {
							if paths.Inside(bad, dep) {
								t.Errorf("%s links %s", name, dep)
							}
						}
					}
				}
			}
			for _, must := range []string{"workspace", "shared", "host", "config", "cmd/sbxhost", "cmd/sbxhost-telemetry", "plugins/docker", "plugins/*"} {
				if !matched[must] {
					t.Errorf("no package was held against the rule for %s: does go list see the tree?", must)
				}
			}
		})
	}
}

// TestImportRulesCanFail shows that the rules refuse what they are there for.
func TestImportRulesCanFail(t *testing.T) {
	t.Parallel()
	for _, bad := range [][2]string{
		{"plugins/bwrap", module + "/host"},
		{"plugins/bwrap", module + "/plugins/noop"},
		{"plugins/bwrap", module + "/shared/enginepb"},
		{"workspace", module + "/shared"},
		{"paths", module + "/shared"},
		{"paths", "os"},
		{"host/view", "os/exec"},
		{"host/view", module + "/host"},
		{"host/stdio", module + "/host/view"},
		{"host/session", module + "/host"},
		{"host/facts", module + "/host/session"},
		{"workspace", "github.com/hashicorp/go-hclog"},
		{"shared", "github.com/hashicorp/hcl/v2"},
		{"host", "github.com/hashicorp/hcl/v2/hclsyntax"},
		{"host", module + "/config"},
		{"shared/sandboxinit", module + "/shared"},
		{"config", module + "/plugins/bwrap"},
		{"cmd/sbxhost", module + "/shared/enginepb"},
	} {
		r, ok := ruleFor(bad[0])
		if !ok {
			t.Fatalf("no rule for %s", bad[0])
		}
		if r.allows(bad[0], bad[1]) == nil {
			t.Errorf("%s may import %s", bad[0], bad[1])
		}
	}
}

func ruleFor(name string) (rule, bool) {
	for _, r := range rules {
		if ok, _ := path.Match(r.packages, name); ok {
			return r, true
		}
	}
	return rule{}, false
}

func (r rule) allows(name, imported string) error {
	for prefix, rooms := range exclusive {
		if !paths.Inside(prefix, imported) {
			continue
		}
		allowed := false
		for _, room := range rooms {
			allowed = allowed || room == name
		}
		if !allowed {
			return errors.New("only " + strings.Join(rooms, ", ") + " may")
		}
	}
	if r.pure && slices.ContainsFunc([]string{"os", "io", "net", "syscall", "path/filepath", "golang.org/x/sys"}, func(p string) bool { return paths.Inside(p, imported) }) {
		return errors.New("it is pure, and looks at nothing")
	}
	if ours, ok := strings.CutPrefix(imported, module+"/"); ok {
		if ours == "paths" {
			return nil // for everybody
		}
		for _, pattern := range r.ours {
			if ok, _ := path.Match(pattern, ours); ok {
				return nil
			}
		}
		return errors.New("its rule allows of this module only " + strings.Join(r.ours, ", "))
	}
	if !strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") {
		return nil // the standard library
	}
	if r.others == nil {
		return nil
	}
	for _, prefix := range r.others {
		if paths.Inside(prefix, imported) {
			return nil
		}
	}
	return errors.New("its rule allows of other modules only " + strings.Join(r.others, ", "))
}

func list(t *testing.T, goos, pattern string) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", pattern)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}
