package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sbxhost/sbxhost/host"
)

// sandboxFast is the sandbox of the library's host.
const sandboxFast = "fast"

// executables are what is measured.
var executables = [...]string{"sbxhost", "sbxhost-engine-bwrap", "sbxhost-engine-landlock", "sbxhost-engine-native", "sbxhost-init"}

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
	sessions  string // where sessions of the library's hosts are made

	stderr *os.File // of what is measured; shown when it fails
}

func newScene(bin string) (_ *scene, err error) {
	for _, name := range executables {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			return nil, fmt.Errorf("-bin: %w; run make build first", err)
		}
	}
	dir, err := os.MkdirTemp("", "sbxhost-bench-")
	if err != nil {
		return nil, err
	}
	s := &scene{dir: dir, workspace: filepath.Join(dir, "work"), config: filepath.Join(dir, "config.hcl"),
		bin:      filepath.Join(dir, "bin"),
		sessions: filepath.Join(dir, "sessions")}
	s.lean = filepath.Join(s.bin, "sbxhost")
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	for _, dir := range []string{s.workspace, s.bin, s.sessions} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if s.stderr, err = os.OpenFile(filepath.Join(dir, "stderr"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(s.config, []byte(configText), 0o644); err != nil {
		return nil, err
	}
	for _, name := range executables {
		if err := install(filepath.Join(bin, name), filepath.Join(s.bin, name)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *scene) close() error {
	var errs []error
	if s.stderr != nil {
		errs = append(errs, s.stderr.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// libraryOptions are what the library's hosts have in common, in the scene's
// directory.
func libraryOptions(dir string) host.Options {
	workspace := filepath.Join(dir, "work")
	return host.Options{
		EngineDir: filepath.Join(dir, "bin"),
		Dir:       workspace,
		Environ:   environ(dir),
		Workspace: host.WorkspaceOptions{Root: workspace},
		Session:   host.SessionOptions{Dir: filepath.Join(dir, "sessions")},
		OneShot:   true, // what is made beforehand would be made in another contender's time
	}
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
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	// Not io.Copy: copy_file_range might share what is cached.
	buffer := make([]byte, 1<<20)
	_, err = io.CopyBuffer(struct{ io.Writer }{target}, struct{ io.Reader }{source}, buffer)
	return errors.Join(err, target.Close())
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

func runLibrary(ctx context.Context, h *host.Host, sandbox string) error {
	return h.Command(ctx, sandbox, "/bin/true").Run()
}
