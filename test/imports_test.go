package test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/paths"
)

const module = "github.com/sbxhost/sbxhost"

// listed is the part of `go list -json` that the rules need.
type listed struct {
	Module     *struct{ Path string } // nil of the standard library's
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
	{packages: "internal/paths", others: []string{}, pure: true},
	{packages: "internal/curated", ours: []string{"internal/paths"}, others: []string{}, pure: true},
	{packages: "internal/hostpath", others: []string{"golang.org/x/sys"}},
	{packages: "internal/gitindex", others: []string{}, pure: true},
	{packages: "workspace", ours: []string{"internal/gitindex", "internal/hostpath"}, others: []string{"golang.org/x/sys"}},
	{packages: "internal/sessiondir", ours: []string{"internal/hostpath", "internal/paths"}, others: []string{"golang.org/x/sys"}},
	{packages: "internal/review", ours: []string{"internal/gitindex", "internal/hostpath", "internal/paths", "internal/proc", "internal/sessiondir"}, others: []string{"golang.org/x/sys"}},
	{packages: "internal/glob", others: []string{}},
	{packages: "internal/scan", ours: []string{"internal/glob", "internal/hostpath"}, others: []string{"golang.org/x/sys"}},
	{packages: "internal/stubs", ours: []string{"internal/hostpath"}, others: []string{"golang.org/x/sys"}},
	{packages: "internal/egress", others: []string{}, pure: true},
	{packages: "internal/egress/gate", ours: []string{"internal/egress", "internal/frame", "shared"}, others: []string{"golang.org/x/net/dns/dnsmessage", "golang.org/x/sys"}},
	{packages: "internal/policy", ours: []string{"shared"}, others: []string{}},
	{packages: "internal/approvals", ours: []string{"internal/hostpath", "internal/proc"}, others: []string{"golang.org/x/sys"}},
	{packages: "internal/audit", ours: []string{"internal/hostpath"}, others: []string{"golang.org/x/sys"}},
	{packages: "internal/frame", others: []string{"golang.org/x/sys"}},
	{packages: "internal/proc", others: []string{"golang.org/x/sys"}},
	{packages: "internal/engine/holder", ours: []string{"internal/frame", "internal/hostpath", "internal/proc"}, others: []string{"golang.org/x/sys"}},
	{packages: "internal/engine/sandboxinit/confine", ours: []string{"internal/hostpath", "internal/proc"}, others: []string{"golang.org/x/sys"}},
	{packages: "internal/engine/sandboxinit/trace", ours: []string{"internal/engine/traced"}, others: []string{"golang.org/x/sys"}},
	{packages: "internal/engine/sandboxinit", ours: []string{"internal/hostpath", "internal/frame", "internal/engine/holder", "internal/proc", "internal/engine/sandboxinit/confine", "internal/engine/sandboxinit/trace", "internal/engine/traced"}, others: []string{"golang.org/x/sys"}},
	{packages: "cmd/sbxhost-init", ours: []string{"internal/engine/sandboxinit"}, others: []string{}},
	{packages: "shared/enginepb", others: []string{"google.golang.org/grpc", "google.golang.org/protobuf"}},
	{packages: "internal/wire", ours: []string{"internal/hostpath"}, others: []string{}}, // sbx has it, which is to start fast
	{packages: "shared", ours: []string{"internal/curated", "shared/enginepb", "internal/frame", "internal/proc", "internal/engine/sandboxinit", "internal/wire"}},
	{packages: "internal/events", ours: []string{"shared"}, others: []string{}},
	{packages: "internal/dial", ours: []string{"shared", "internal/events", "shared/enginepb", "internal/frame", "internal/hostpath", "internal/proc", "internal/wire"}},
	{packages: "internal/engine/cgroup", ours: []string{"internal/hostpath", "internal/proc"}, others: []string{"golang.org/x/sys"}},
	{packages: "shared/cmdengine", ours: []string{"internal/events", "internal/frame", "internal/hostpath", "shared", "internal/proc", "internal/engine/sandboxinit", "internal/engine/sandboxinit/confine", "internal/engine/holder", "internal/engine/cgroup", "internal/engine/traced"}, others: []string{"golang.org/x/sys"}},
	{packages: "shared/enginetest/internal/actor", ours: []string{}, others: []string{"golang.org/x/sys"}},
	{packages: "shared/enginetest/internal/scene", ours: []string{"shared", "internal/dial", "shared/enginetest/internal/actor", "internal/engine/scratch"}, others: []string{"github.com/creack/pty"}},
	{packages: "shared/enginetest/internal/probes", ours: []string{"shared", "shared/enginetest/internal/actor", "shared/enginetest/internal/scene", "internal/engine/sandboxinit/confine", "internal/engine/scratch"}, others: []string{"github.com/creack/pty", "golang.org/x/sys"}},
	{packages: "shared/enginetest/internal/contract", ours: []string{"shared", "internal/dial", "shared/enginepb", "shared/enginetest/internal/actor", "shared/enginetest/internal/scene", "internal/proc", "internal/wire"}, others: []string{"github.com/creack/pty", "golang.org/x/sys", "google.golang.org/grpc"}},
	{packages: "shared/enginetest", ours: []string{"internal/hostpath", "shared", "internal/dial", "shared/enginetest/internal/*", "internal/engine/sandboxinit", "internal/wire"}, others: []string{}},
	{packages: "internal/engine/traced", ours: []string{"internal/frame"}, others: []string{}},
	{packages: "shared/seccomp", ours: []string{"internal/engine/traced"}, others: []string{"golang.org/x/net/bpf"}},
	{packages: "internal/engine/mountplan", ours: []string{"internal/curated", "internal/hostpath", "shared", "internal/engine/holder"}, others: []string{"golang.org/x/sys"}},
	{packages: "internal/engine/nsengine", ours: []string{"shared", "internal/engine/cgroup", "internal/engine/holder", "internal/engine/sandboxinit", "internal/engine/sandboxinit/confine", "shared/seccomp"}, others: []string{"golang.org/x/sys"}},
	{packages: "internal/engine/scratch", ours: []string{"internal/hostpath", "shared"}, others: []string{"golang.org/x/sys"}},
	{packages: "internal/engine/gated", ours: []string{"internal/egress", "internal/egress/gate", "shared"}, others: []string{}},
	{packages: "plugins/native", ours: []string{"internal/egress/gate", "shared", "internal/engine/gated", "internal/wire", "shared/cmdengine", "internal/engine/cgroup", "internal/engine/holder", "internal/engine/mountplan", "internal/engine/nsengine", "internal/engine/sandboxinit", "internal/engine/scratch"}},
	{packages: "plugins/bwrap", ours: []string{"internal/egress/gate", "internal/hostpath", "shared", "internal/engine/gated", "shared/cmdengine", "internal/engine/cgroup", "internal/engine/holder", "internal/engine/mountplan", "internal/engine/nsengine", "internal/engine/sandboxinit"}},
	{packages: "plugins/landlock", ours: []string{"internal/hostpath", "shared", "shared/cmdengine", "internal/engine/cgroup", "internal/engine/holder", "internal/engine/mountplan", "internal/engine/nsengine", "internal/engine/sandboxinit", "internal/engine/sandboxinit/confine", "internal/engine/scratch", "shared/seccomp"}},
	{packages: "plugins/docker/internal/definition", ours: []string{"shared"}, others: []string{"github.com/opencontainers/image-spec"}},
	{packages: "plugins/docker/internal/daemon", ours: []string{"internal/frame", "plugins/docker/internal/definition", "shared"}, others: []string{"github.com/moby/moby", "golang.org/x/sys"}},
	{packages: "plugins/docker/internal/plan", ours: []string{"plugins/docker/internal/daemon", "plugins/docker/internal/definition", "internal/engine/mountplan", "internal/engine/sandboxinit", "internal/paths", "shared", "shared/cmdengine"}, others: []string{"github.com/moby/moby", "github.com/opencontainers/image-spec"}},
	{packages: "plugins/docker/internal/vessel", ours: []string{"plugins/docker/internal/daemon", "plugins/docker/internal/plan", "shared", "internal/engine/sandboxinit", "internal/proc", "internal/wire"}, others: []string{"github.com/moby/moby", "github.com/containerd/errdefs", "github.com/opencontainers/image-spec", "golang.org/x/sys"}},
	{packages: "plugins/docker/internal/image", ours: []string{"plugins/docker/internal/daemon", "plugins/docker/internal/definition", "plugins/docker/internal/plan", "shared"}, others: []string{"github.com/moby/moby", "github.com/containerd/errdefs", "github.com/opencontainers/image-spec"}},
	{packages: "plugins/docker", ours: []string{"plugins/docker/internal/*", "internal/egress/gate", "shared", "internal/engine/gated", "shared/cmdengine", "internal/engine/mountplan", "internal/engine/sandboxinit", "shared/seccomp"}, others: []string{"github.com/moby/moby", "golang.org/x/sys"}},
	{packages: "plugins/seatbelt", ours: []string{"internal/egress/gate", "internal/glob", "internal/hostpath", "shared", "internal/engine/gated", "shared/cmdengine", "internal/engine/sandboxinit", "internal/engine/scratch"}},
	{packages: "plugins/*", ours: []string{"internal/hostpath", "shared", "shared/cmdengine", "internal/engine/sandboxinit"}},
	{packages: "plugins/internal/inside", ours: []string{"shared"}, others: []string{}}, // for tests alone
	{packages: "plugins/*/sbxhost-engine-*", ours: []string{"shared", "plugins/*"}, others: []string{}},
	{packages: "internal/view", ours: []string{"internal/curated", "internal/egress", "internal/hostpath", "workspace", "internal/glob", "internal/scan", "shared"}, others: []string{}, pure: true},
	{packages: "internal/denial", ours: []string{"internal/audit", "internal/egress", "internal/view", "internal/hostpath", "internal/paths", "shared"}, others: []string{}, pure: true},
	{packages: "internal/env", ours: []string{"internal/view"}, others: []string{}, pure: true},
	{packages: "internal/stdio", ours: []string{"internal/frame", "shared"}, others: []string{"golang.org/x/sys"}},
	{packages: "internal/facts", ours: []string{"internal/env", "internal/view", "internal/approvals", "internal/glob", "internal/hostpath", "internal/proc", "internal/scan", "internal/sessiondir", "shared", "internal/stubs", "workspace"}, others: []string{"github.com/hashicorp/go-hclog", "golang.org/x/sys"}},
	{packages: "internal/session", ours: []string{"internal/view", "internal/hostpath", "internal/sessiondir", "shared", "internal/proc", "internal/stubs"}, others: []string{"github.com/hashicorp/go-hclog", "golang.org/x/sys"}},
	{packages: "internal/launch", ours: []string{"internal/hostpath", "internal/paths", "shared", "internal/dial", "internal/engine/sandboxinit", "internal/wire"}, others: []string{"github.com/hashicorp/go-hclog"}},
	{packages: "internal/sandbox", ours: []string{"internal/facts", "internal/launch", "internal/session", "internal/view", "internal/policy", "internal/review", "shared"}, others: []string{"github.com/hashicorp/go-hclog"}},
	{packages: "host", ours: []string{"internal/denial", "internal/egress", "internal/env", "internal/facts", "internal/launch", "internal/sandbox", "internal/session", "internal/stdio", "internal/view", "internal/hostpath", "internal/policy", "internal/approvals", "internal/audit", "internal/review", "internal/sessiondir", "workspace", "internal/stubs", "shared", "internal/wire"}},
	{packages: "internal/source", ours: []string{"internal/hostpath"}, others: []string{"github.com/agext/levenshtein", "github.com/hashicorp/hcl/v2"}},
	{packages: "config", ours: []string{"internal/source", "internal/egress", "host", "internal/launch", "internal/paths", "internal/env", "internal/view", "internal/policy", "shared", "internal/glob", "internal/hostpath"}},
	{packages: "cmd/internal/inforce", ours: []string{"internal/approvals", "config", "internal/source", "host", "internal/hostpath", "internal/launch", "internal/policy", "shared", "internal/wire"}, others: []string{"github.com/hashicorp/go-hclog"}},
	{packages: "internal/serve", ours: []string{"internal/hostpath", "internal/frame", "internal/proc", "internal/wire"}, others: []string{"golang.org/x/sys"}},
	{packages: "cmd/sbx", ours: []string{"internal/hostpath", "internal/serve"}},
	{packages: "cmd/sbxhost/internal/cli", ours: []string{"config", "internal/source", "host", "internal/hostpath", "cmd/internal/inforce", "shared"}, others: []string{"golang.org/x/term"}},
	{packages: "cmd/sbxhost/internal/terminal", ours: []string{"cmd/sbxhost/internal/cli", "host", "internal/serve"}, others: []string{"golang.org/x/sys", "golang.org/x/term"}},
	{packages: "cmd/sbxhost/internal/replace", ours: []string{"cmd/sbxhost/internal/cli", "internal/source", "internal/hostpath"}, others: []string{"golang.org/x/sys"}},
	{packages: "cmd/sbxhost/internal/prompt", ours: []string{"cmd/sbxhost/internal/cli", "cmd/sbxhost/internal/terminal", "internal/approvals", "host", "internal/hostpath", "cmd/internal/inforce", "internal/policy"}, others: []string{"golang.org/x/sys", "github.com/rogpeppe/go-internal/diff"}},
	{packages: "cmd/sbxhost/internal/setup", ours: []string{"cmd/sbxhost/internal/cli", "cmd/sbxhost/internal/prompt", "internal/approvals", "config", "internal/egress", "host", "internal/hostpath", "internal/launch", "cmd/internal/inforce", "internal/policy", "shared"}, others: []string{"github.com/hashicorp/go-hclog"}},
	{packages: "cmd/sbxhost/internal/execute", ours: []string{"cmd/sbxhost/internal/cli", "internal/facts", "internal/session", "cmd/sbxhost/internal/replace", "cmd/sbxhost/internal/setup", "cmd/sbxhost/internal/terminal", "internal/audit", "internal/egress", "host", "internal/hostpath", "internal/policy", "internal/serve", "shared", "internal/frame", "internal/wire"}, others: []string{"golang.org/x/sys"}},
	{packages: "cmd/sbxhost/internal/keep", ours: []string{"internal/session", "cmd/sbxhost/internal/cli", "cmd/sbxhost/internal/execute", "cmd/sbxhost/internal/setup", "internal/approvals", "host", "internal/launch", "internal/hostpath", "cmd/internal/inforce", "internal/serve", "shared", "internal/frame", "workspace"}, others: []string{"golang.org/x/sys"}},
	{packages: "cmd/sbxhost/internal/explain", ours: []string{"cmd/sbxhost/internal/cli", "cmd/sbxhost/internal/setup", "config", "host", "internal/stubs", "internal/view", "shared"}, others: []string{}},
	{packages: "cmd/sbxhost/internal/consent", ours: []string{"cmd/sbxhost/internal/cli", "cmd/sbxhost/internal/prompt", "cmd/sbxhost/internal/setup", "internal/approvals", "config", "internal/source", "cmd/internal/inforce"}, others: []string{}},
	{packages: "cmd/sbxhost/internal/review", ours: []string{"cmd/sbxhost/internal/cli", "cmd/sbxhost/internal/setup", "host", "cmd/internal/inforce"}, others: []string{}},
	{packages: "cmd/sbxhost/internal/engines", ours: []string{"cmd/sbxhost/internal/cli", "cmd/sbxhost/internal/replace", "cmd/sbxhost/internal/setup", "config", "host", "internal/launch", "cmd/internal/inforce", "shared", "internal/dial", "shared/enginetest"}, others: []string{}},
	{packages: "cmd/sbxhost/internal/doctor", ours: []string{"internal/approvals", "cmd/sbxhost/internal/cli", "cmd/sbxhost/internal/engines", "cmd/sbxhost/internal/setup", "host", "internal/hostpath", "internal/sessiondir", "shared", "internal/engine/cgroup", "internal/engine/nsengine", "internal/engine/sandboxinit/confine"}, others: []string{"golang.org/x/sys"}},
	{packages: "cmd/sbxhost", ours: []string{"cmd/sbxhost/internal/*", "config", "internal/source", "host", "shared", "shared/enginetest", "cmd/internal/inforce", "internal/proc", "internal/serve", "internal/wire", "plugins/*"}, others: []string{"golang.org/x/sys"}},
	{packages: "cmd/sbxhost-mcp", ours: []string{"config", "internal/source", "host", "internal/hostpath", "cmd/internal/inforce", "internal/policy", "shared", "plugins/*"}, others: []string{"github.com/google/jsonschema-go/jsonschema", "github.com/hashicorp/go-hclog", "github.com/modelcontextprotocol/go-sdk/jsonrpc", "github.com/modelcontextprotocol/go-sdk/mcp"}},
	{packages: "integrations/nomad/internal/driver", ours: []string{"config", "internal/source", "host", "internal/hostpath", "plugins/*", "shared", "internal/proc"}},
	{packages: "integrations/nomad/nomad-driver-sbxhost", ours: []string{"host", "integrations/nomad/internal/driver"}, others: []string{}},
	{packages: "test", ours: []string{}},
	{packages: "docs/examples/sbxhost-engine-*", ours: []string{"shared", "shared/cmdengine", "shared/seccomp"}, others: []string{}},
	{packages: "docs/examples/*", ours: []string{"config", "host", "shared", "shared/cmdengine", "plugins/native"}},
	{packages: "test/bench/floor/*", ours: []string{"test/bench/floor/*"}},
	{packages: "test/bench/floor", ours: []string{"test/bench/floor/pass"}},
	{packages: "test/bench", ours: []string{"host", "internal/proc"}, others: []string{}},
	{packages: "internal/testing/*", ours: []string{}},
}

// exclusive are foreign modules that one room alone may import.
var exclusive = map[string][]string{
	"github.com/hashicorp/hcl/v2":     {"config", "internal/source", "docs/examples/ownformat"},
	"github.com/zclconf/go-cty":       {"config", "integrations/nomad/internal/driver"},
	"github.com/hashicorp/nomad":      {"integrations/nomad/internal/driver"},
	"google.golang.org/protobuf":      {"test/bench/floor", "shared/enginepb", "integrations/nomad/internal/driver"},
	"google.golang.org/grpc":          {"test/bench/floor", "shared", "internal/dial", "shared/enginepb", "shared/enginetest/internal/contract", "integrations/nomad/internal/driver"},
	module + "/shared/enginepb":       {"shared", "internal/dial", "shared/enginetest/internal/contract"},
	"github.com/rogpeppe/go-internal": {"cmd/sbxhost/internal/prompt"}, // its diff; all else is for tests
	"github.com/hashicorp/go-plugin":  {"test/bench/floor", "shared", "internal/dial", "internal/wire", "integrations/nomad/internal/driver"},
	"github.com/modelcontextprotocol": {"cmd/sbxhost-mcp"},
	"github.com/moby":                 {"plugins/docker", "plugins/docker/internal/*", "internal/testing/dockerd"},
}

// never are what an engine's executable must not link, however indirectly: it
// would cost every command its initialisation.
var never = []string{
	"github.com/hashicorp/hcl", "github.com/zclconf/go-cty", "go.opentelemetry.io/otel/exporters",
	module + "/host", module + "/config", module + "/workspace", module + "/internal/sessiondir", module + "/internal/policy", module + "/internal/approvals", module + "/internal/audit",
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
			for _, must := range []string{"workspace", "shared", "host", "config", "cmd/sbxhost", "integrations/nomad/internal/driver", "plugins/docker", "plugins/*"} {
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
		{"plugins/docker/internal/definition", module + "/plugins/docker/internal/daemon"},
		{"plugins/docker/internal/plan", module + "/plugins/docker/internal/vessel"},
		{"plugins/docker/internal/image", module + "/plugins/docker/internal/vessel"},
		{"plugins/docker/internal/vessel", module + "/plugins/docker"},
		{"plugins/bwrap", module + "/plugins/noop"},
		{"plugins/bwrap", module + "/shared/enginepb"},
		{"workspace", module + "/shared"},
		{"internal/paths", module + "/shared"},
		{"internal/paths", "os"},
		{"internal/egress", "net"},
		{"internal/egress", module + "/shared"},
		{"internal/egress/gate", module + "/internal/engine/gated"},
		{"internal/view", "os/exec"},
		{"internal/view", module + "/host"},
		{"internal/denial", "net"},
		{"internal/stdio", module + "/internal/view"},
		{"internal/session", module + "/host"},
		{"internal/facts", module + "/internal/session"},
		{"internal/sandbox", module + "/host"},
		{"internal/sandbox", module + "/internal/audit"},
		{"internal/launch", module + "/internal/sandbox"},
		{"workspace", "github.com/hashicorp/go-hclog"},
		{"shared", "github.com/hashicorp/hcl/v2"},
		{"host", "github.com/hashicorp/hcl/v2/hclsyntax"},
		{"host", module + "/config"},
		{"internal/engine/sandboxinit", module + "/shared"},
		{"internal/engine/sandboxinit/confine", module + "/internal/engine/sandboxinit"},
		{"internal/engine/sandboxinit/trace", module + "/internal/frame"},
		{"shared/enginetest/internal/scene", module + "/shared/enginetest/internal/probes"},
		{"shared/enginetest/internal/probes", module + "/shared/enginetest/internal/contract"},
		{"shared/enginetest/internal/contract", module + "/shared/enginetest"},
		{"shared/enginetest/internal/actor", module + "/shared"},
		{"shared/enginetest", module + "/shared/enginepb"},
		{"shared", module + "/internal/dial"},
		{"internal/wire", module + "/shared"},
		{"host", "github.com/hashicorp/go-plugin"},
		{"host", module + "/internal/dial"},
		{"internal/launch", module + "/host"},
		{"config", module + "/plugins/bwrap"},
		{"cmd/sbxhost", module + "/shared/enginepb"},
		{"docs/examples/sbxhost-engine-podman", module + "/internal/paths"},
		{"cmd/sbxhost/internal/cli", module + "/cmd/sbxhost/internal/setup"},
		{"cmd/sbxhost/internal/execute", module + "/cmd/sbxhost/internal/keep"},
		{"cmd/sbxhost", "github.com/hashicorp/nomad/plugins/base/proto"},
		{"integrations/nomad/internal/driver", module + "/shared/enginepb"},
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
			in, _ := path.Match(room, name)
			allowed = allowed || in
		}
		if !allowed {
			return errors.New("only " + strings.Join(rooms, ", ") + " may")
		}
	}
	if r.pure && imported != "net/netip" && imported != "io" && slices.ContainsFunc([]string{"os", "io", "net", "syscall", "path/filepath", "golang.org/x/sys"}, func(p string) bool { return paths.Inside(p, imported) }) {
		return errors.New("it is pure, and looks at nothing")
	}
	if ours, ok := strings.CutPrefix(imported, module+"/"); ok {
		if strings.Contains("/"+name, "/examples/") && strings.Contains("/"+ours, "/internal/") {
			return errors.New("an example is what others write, who cannot")
		}
		if ours == "internal/paths" {
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

func list(t *testing.T, goos string, patterns ...string) []listed {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,Deps,Module"}, patterns...)...)
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

// told are the packages that look at nothing of their own process's environment, home
// or current directory: a server for many clients has as many of each. cmd reads them.
var told = []string{"host", "config", "workspace", "cmd/internal/inforce", "internal/scan", "internal/policy", "internal/approvals", "internal/audit", "internal/stubs", "internal/glob", "internal/paths", "internal/hostpath", "internal/view", "internal/facts", "internal/sandbox", "internal/session", "internal/env", "internal/denial", "internal/launch", "internal/stdio"}

// readsProcess are the functions that may, all the same.
var readsProcess = map[string]string{
	"WorkingDir":            "a program whose user works in a directory passes it on",
	"fillIn":                "host.New takes what its caller leaves out",
	"ServeBuiltin":          "the process is an engine's, and is told so by its environment",
	"ForgottenServeBuiltin": "it finds out whether the process should be an engine's",
}

// processState are the functions that read, or change, what is a process's own.
var processState = map[string][]string{
	"os": {"Getenv", "LookupEnv", "Environ", "ExpandEnv", "Setenv", "Unsetenv", "Clearenv", "Getwd", "Chdir", "TempDir",
		"UserHomeDir", "UserCacheDir", "UserConfigDir"},
	"path/filepath": {"Abs"},
	"os/user":       {"Current"},
	"os/exec":       {"LookPath"},
	"syscall":       {"Getenv", "Environ", "Getwd", "Chdir"},
}

func TestEnvironmentIsTold(t *testing.T) {
	t.Parallel()
	used, files := map[string]bool{}, 0
	for _, dir := range told {
		err := filepath.WalkDir(filepath.Join("..", dir), func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
				return err
			}
			files++
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			found, err := processReads(p, text)
			for _, at := range found {
				if used[at.function] = true; readsProcess[at.function] == "" {
					t.Errorf("%s: %s uses %s: its caller has to tell it", at.position, at.function, at.name)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for function := range readsProcess {
		if !used[function] {
			t.Errorf("%s reads nothing of its process: take it out of readsProcess", function)
		}
	}
	if files < 50 {
		t.Errorf("only %d files were read", files)
	}
}

func TestEnvironmentIsToldCanFail(t *testing.T) {
	t.Parallel()
	const text = "package p\nimport (sys \"os\"; \"path/filepath\")\nvar home = sys.Getenv\nfunc f() { filepath.Abs(\"\"); filepath.Join(\"\") }\n"
	found, err := processReads("p.go", []byte(text))
	if err != nil || len(found) != 2 || found[0].name != "os.Getenv" || found[0].function != "" || found[1].name != "path/filepath.Abs" || found[1].function != "f" {
		t.Errorf("%+v, error %v", found, err)
	}
}

type processRead struct {
	name, function string
	position       token.Position
}

// processReads finds the uses of processState in a file.
func processReads(name string, text []byte) (list []processRead, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	imports := map[string]string{}
	for _, spec := range file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		as := path.Base(p)
		if spec.Name != nil {
			as = spec.Name.Name
		}
		imports[as] = p
	}
	for _, decl := range file.Decls {
		function := ""
		if f, ok := decl.(*ast.FuncDecl); ok {
			function = f.Name.Name
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && slices.Contains(processState[imports[x.Name]], sel.Sel.Name) {
				list = append(list, processRead{imports[x.Name] + "." + sel.Sel.Name, function, fset.Position(sel.Pos())})
			}
			return true
		})
	}
	return list, nil
}

// TestLibraryNamesNoCommands holds the texts of the library to what each program that imports it
// has: none names the sbxhost command, its subcommands or its flags. What its user can do there
// is for cmd/sbxhost to say, of the same errors.
func TestLibraryNamesNoCommands(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"try `sbxhost doctor`": true, "what sbxhost remembers": true, "by sbxhost.": true, "allow it with -network=true": true, "see (-bind)": true,
		"sbxhost": false, "sbxhost-init": false, "/var/lib/sbxhost/engines": false, "sbxhost.hcl": false, "github.com/sbxhost/sbxhost": false, "pip install --user": false,
	} {
		if namesCommand(text) != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
	literals := 0
	for _, room := range []string{"host", "config", "shared", "workspace", "internal/policy", "internal/approvals", "internal/audit", "internal/hostpath", "internal/sessiondir", "internal/stubs"} {
		err := filepath.WalkDir("../"+room, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".pb.go") {
				return err
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(node ast.Node) bool {
				literal, ok := node.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					return true
				}
				literals++
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				if namesCommand(text) && !slices.Contains(ownTexts, text) {
					t.Errorf("%s: %q", set.Position(literal.Pos()), text)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if literals < 1000 {
		t.Errorf("only %d texts were looked at", literals)
	}
}

// ownTexts name the command where no program's user sees them, or where it is the program.
var ownTexts = []string{
	"sbxhost approval", // hashed
	"sbxhost.",         // begins a placeholder
	"sbxhost-init: this program is started by sbxhost's engines inside a sandbox\n", // a program's own help
}

var (
	commandName = regexp.MustCompile(`(^|[^-\w./])sbxhost($|[^-\w./]|\.($|\s))`)
	commandFlag = regexp.MustCompile("(^|[ (`'\"])--?(network|no-sandbox|config|sandbox|session|bind|env|result|audit|timeout|json|quiet)\\b")
)

func namesCommand(text string) bool {
	return text != "sbxhost" && commandName.MatchString(text) || strings.Contains(text, " ") && commandFlag.MatchString(text)
}

// A server runs commands of many processes: none gets what is the server's own. So nothing that it is made of
// reads the environment, the directory or the home of its process but what says whether this is an engine.
func TestServersReadNothingOfTheirOwn(t *testing.T) {
	t.Parallel()
	own := regexp.MustCompile(`\bos\.(Getenv|LookupEnv|Environ|ExpandEnv|Getwd|UserHomeDir|UserCacheDir|UserConfigDir)\b|\bexec\.LookPath\b`)
	allowed := map[string]string{
		"host/host.go":                 "Options.fillIn, of what a program leaves to the library",
		"internal/launch/builtin.go":   "whether this process is an engine",
		"internal/serve/ask_linux.go":  "of a client, for its own command",
		"cmd/internal/inforce/load.go": "of a program whose user works in a directory, which passes it on",
	}
	read := map[string]bool{}
	for _, dir := range []string{"cmd/sbxhost/internal", "cmd/internal/inforce", "config", "host", "workspace", "internal/egress", "internal/approvals", "internal/audit", "internal/policy", "internal/hostpath", "internal/scan", "internal/stubs", "internal/sessiondir", "internal/review", "internal/serve", "internal/launch", "internal/facts", "internal/session", "internal/sandbox", "internal/env", "internal/denial", "internal/stdio", "internal/view"} {
		err := filepath.WalkDir("../"+dir, func(p string, d os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
				return err
			}
			text, err := os.ReadFile(p)
			for line := range strings.Lines(string(text)) {
				code, _, _ := strings.Cut(line, "//")
				if found := own.FindString(code); found != "" {
					name := strings.TrimPrefix(p, "../")
					if read[name] = true; allowed[name] == "" {
						t.Errorf("%s has %s", name, found)
					}
				}
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	for name := range allowed {
		if !read[name] {
			t.Errorf("%s reads nothing any more", name)
		}
	}
}
