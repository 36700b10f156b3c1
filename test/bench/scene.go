package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sbxhost/sbxhost/host"
)

// sandboxFast is the sandbox of the library's host.
const sandboxFast = "fast"

// executables are what is measured.
var executables = [...]string{"sbx", "sbxhost", "sbxhost-engine-bwrap", "sbxhost-engine-landlock", "sbxhost-engine-native", "sbxhost-init", "sbxhost-mcp"}

// configText defines the sandboxes of the command line, one for each engine.
const configText = `sandbox "native" {
  engine = "native"
}

sandbox "patterns" {
  engine     = "native"
  deny_paths = ["**/*.pem"]
}

sandbox "bwrap" {
  engine = "bwrap"
}

sandbox "landlock" {
  engine    = "landlock"
  isolation = "best_effort"
}
`

// scene is what all measurements share.
type scene struct {
	dir       string // removed at the end; everything else lies in it
	workspace string // empty; where all commands run
	config    string
	bin       string // the executables, installed
	lean      string // sbxhost with its engine and init beside it
	hosts     []*host.Host

	stderr *os.File // of what is measured; shown when it fails
}

func newScene(bin string) (_ *scene, err error) {
	dir, err := os.MkdirTemp("", "sbxhost-bench-")
	if err != nil {
		return nil, err
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	s := &scene{dir: dir, workspace: at("work"), config: at("config.hcl"), bin: at("bin"), lean: at("bin/sbxhost")}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.stderr, err = os.OpenFile(at("stderr"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600); err != nil {
		return nil, err
	}
	err = errors.Join(os.Mkdir(s.workspace, 0o700), os.Mkdir(s.bin, 0o700), os.Mkdir(at("sessions"), 0o700), os.WriteFile(s.config, []byte(configText), 0o644))
	for _, name := range executables {
		if err := install(filepath.Join(bin, name), filepath.Join(s.bin, name)); err != nil {
			return nil, fmt.Errorf("-bin: %w; run make build first", err)
		}
	}
	return s, err
}

func (s *scene) close() error {
	errs := []error{s.stderr.Close()}
	for _, h := range s.hosts {
		errs = append(errs, h.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// host returns a host of the library, with what all have in common, in a workspace. The scene closes it.
func (s *scene) host(ctx context.Context, workspace string, change func(*host.Options)) *host.Host {
	o := host.Options{
		EngineDir: s.bin,
		Dir:       workspace,
		Environ:   environ(s.dir),
		Workspace: host.WorkspaceOptions{Root: workspace},
		Session:   host.SessionOptions{Dir: filepath.Join(s.dir, "sessions")},
		OneShot:   true, // what is made beforehand would be made in another contender's time
	}
	change(&o)
	h, err := host.New(ctx, o)
	check(err)
	s.hosts = append(s.hosts, h)
	return h
}

// environ is the caller's, with what sbxhost remembers in the scene's directory.
func environ(dir string) []string {
	return append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
}

// install copies an executable. To run it where the linker has left it would
// measure the linker: it writes by mapping the file, page by page, and a program
// whose pages the kernel caches one by one starts a tenth to a sixth slower than
// one that was copied or read from disk.
func install(from, to string) error {
	program, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, program, 0o755)
}

// plant makes n files below a directory.
func plant(root string, n int, file func(i int) (name, text string)) {
	for i := range n {
		name, text := file(i)
		path := filepath.Join(root, name)
		check(os.MkdirAll(filepath.Dir(path), 0o755))
		check(os.WriteFile(path, []byte(text), 0o644))
	}
}

func (s *scene) git(ctx context.Context, root string, args ...string) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = root
	check(s.run(cmd))
}

// commitAll makes a directory a repository with all that is in it.
func (s *scene) commitAll(ctx context.Context, root string) {
	s.git(ctx, root, "init", "-q")
	s.git(ctx, root, "add", ".")
	s.git(ctx, root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all")
}

// run runs cmd with the null device as stdin and stdout.
func (s *scene) run(cmd *exec.Cmd) error {
	cmd.Stderr = s.stderr
	if err := cmd.Run(); err != nil {
		return s.failed(cmd, err)
	}
	return nil
}

// failed gives err with the end of what was said.
func (s *scene) failed(cmd *exec.Cmd, err error) error {
	text := make([]byte, 1024)
	var n int
	if info, statErr := s.stderr.Stat(); statErr == nil {
		n, _ = s.stderr.ReadAt(text, max(0, info.Size()-int64(len(text))))
	}
	return fmt.Errorf("%s: %w: %s", cmd.Path, err, strings.TrimSpace(string(text[:n])))
}

// sbxhost gives the command line that runs a program in an engine.
func (s *scene) sbxhost(ctx context.Context, engine, program string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.lean, "exec", "-config", s.config, "-sandbox", engine, "--", program)
	cmd.Dir, cmd.Env = s.workspace, environ(s.dir)
	return cmd
}

// oneShot runs a program in a sandbox by the command line, in a workspace.
func (s *scene) oneShot(ctx context.Context, sandbox, workspace string) func() error {
	return func() error {
		cmd := s.sbxhost(ctx, sandbox, "/bin/true")
		cmd.Dir = workspace
		return s.run(cmd)
	}
}

// inLibrary runs a program in a sandbox of a host.
func inLibrary(ctx context.Context, h *host.Host, sandbox string) func() error {
	return func() error { return h.Command(ctx, sandbox, "/bin/true").Run() }
}
