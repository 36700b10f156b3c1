package test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/paths"
)

// nested are the modules of this repository that require the one at its top.
var nested = []string{"cmd/sbxhost-mcp", "integrations/nomad", "plugins/docker"}

// notOurs are modules that an embedder has in versions of its own choice. The
// nested modules keep them from who imports only this one.
var notOurs = []string{
	"github.com/moby", "github.com/docker", "github.com/distribution", "github.com/opencontainers", "github.com/containerd", "github.com/modelcontextprotocol", "go.opentelemetry.io", "github.com/hashicorp/nomad",
}

func isNotOurs(module string) bool {
	return slices.ContainsFunc(notOurs, func(p string) bool { return paths.Inside(p, module) })
}

// alone is the go command without the workspace, as it works for who requires
// the module.
func alone(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return out
}

type goMod struct {
	Module  struct{ Path string }
	Require []struct{ Path, Version string }
	Replace []struct{ Old struct{ Path string } }
}

func readGoMod(t *testing.T, dir string) (m goMod) {
	t.Helper()
	if err := json.Unmarshal(alone(t, dir, "mod", "edit", "-json"), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// Who imports host gets no version of OpenTelemetry, of Docker's modules or of Nomad by that.
func TestRootModuleLeavesVersionsAlone(t *testing.T) {
	t.Parallel()
	for _, r := range readGoMod(t, "..").Require {
		if isNotOurs(r.Path) {
			t.Errorf("go.mod requires %s", r.Path)
		}
	}
	seen := false
	for _, pkg := range strings.Fields(string(alone(t, "..", "list", "-deps", "-test", "./..."))) {
		seen = seen || pkg == module+"/host"
		if isNotOurs(pkg) {
			t.Errorf("a package or a test of the module at the top imports %s", pkg)
		}
	}
	if !seen {
		t.Error("go list names no package host: does it see the module?")
	}
	// gRPC names OpenTelemetry itself, for what it does not link here.
	for line := range strings.Lines(string(alone(t, "..", "mod", "graph"))) {
		from, to, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, _, _ := strings.Cut(to, "@")
		if isNotOurs(name) && !isNotOurs(from) && !strings.HasPrefix(from, "google.golang.org/grpc@") || strings.Contains(name, "/exporters/") {
			t.Errorf("%s requires %s", from, to)
		}
	}
}

// TestGoInstall has the go command install each program by its module's name and
// version, from modules as they would be published.
func TestGoInstall(t *testing.T) {
	t.Parallel()
	var version string
	for _, dir := range append([]string{"."}, nested...) {
		m := readGoMod(t, filepath.Join("..", dir))
		if want := path.Join(module, dir); m.Module.Path != want {
			t.Errorf("the module in %s is %s, want %s", dir, m.Module.Path, want)
		}
		if len(m.Replace) > 0 {
			t.Errorf("%s/go.mod replaces %s: go install refuses that", dir, m.Replace[0].Old.Path)
		}
		for _, r := range m.Require {
			if r.Path == module && version != "" && version != r.Version {
				t.Errorf("%s requires this module in %s, another in %s", dir, r.Version, version)
			} else if r.Path == module {
				version = r.Version
			}
		}
	}
	proxy := t.TempDir()
	for _, dir := range append([]string{"."}, nested...) {
		publish(t, proxy, dir, version)
	}
	modcache := t.TempDir()
	downloaded := filepath.Join(strings.TrimSpace(string(alone(t, "..", "env", "GOMODCACHE"))), "cache", "download")
	for _, pkg := range []string{"cmd/sbxhost", "cmd/sbxhost-init", "cmd/sbxhost-mcp", "integrations/nomad/nomad-driver-sbxhost", "plugins/docker/sbxhost-engine-docker"} {
		// Nothing is built: that the source compiles is what all other tests hold.
		cmd := exec.Command("go", "install", "-n", module+"/"+pkg+"@"+version)
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-modcacherw", "GOSUMDB=off",
			"GOMODCACHE="+modcache, "GOPROXY=file://"+proxy+",file://"+downloaded)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%.2000s", cmd, err, out)
		} else if !bytes.Contains(out, []byte(path.Base(pkg))) {
			t.Errorf("%s does not name the program:\n%.2000s", cmd, out)
		}
	}
}

// publish writes the module in a directory of this repository as a proxy gives it.
func publish(t *testing.T, proxy, dir, version string) {
	t.Helper()
	top := filepath.Join("..", dir)
	name := path.Join(module, dir)
	to := filepath.Join(proxy, filepath.FromSlash(name), "@v")
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	var content bytes.Buffer
	z := zip.NewWriter(&content)
	err := filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != top {
			if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil || d.Name() == ".git" || d.Name() == "bin" || d.Name() == "dist" {
				return filepath.SkipDir // of another module, or none
			}
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(top, file)
		if err != nil {
			return err
		}
		w, err := z.Create(name + "@" + version + "/" + filepath.ToSlash(inside))
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	})
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(top, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".info": fmt.Appendf(nil, `{"Version":%q}`, version), version + ".mod": mod, version + ".zip": content.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(to, file), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
