package test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/testing/dockerd"
)

// failedCase is a line of `engines test -failed`.
var failedCase = regexp.MustCompile(`(?m)^  (?:failed|leaked|control-failed) +(\S+) `)

// TestLandlockInside has the kit try the engine landlock where it is for: in a container with the
// usual filter of system calls, and in sandboxes.
func TestLandlockInside(t *testing.T) {
	t.Parallel()
	layout := filepath.Join(t.TempDir(), "bin")
	build(t, layout, "cmd/sbxhost", "plugins/landlock/sbxhost-engine-landlock", "plugins/native/sbxhost-engine-native", "cmd/sbxhost-init")
	program := filepath.Join(layout, "sbxhost")
	kit := []string{program, "engines", "test", "-failed", "landlock"}

	tries := func(t *testing.T, cmd *exec.Cmd, known ...string) {
		t.Helper()
		if cmd.Dir == "" {
			cmd.Dir = "/" // where no configuration lies
		}
		out, err := cmd.CombinedOutput()
		if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) || !strings.Contains(string(out), " held, ") {
			t.Fatalf("%v: %s", err, out)
		}
		for _, found := range failedCase.FindAllStringSubmatch(string(out), -1) {
			if !slices.Contains(known, found[1]) {
				t.Errorf("%s", out)
				return
			}
		}
		t.Log(string(out))
	}
	t.Run("bwrap", func(t *testing.T) {
		t.Parallel()
		requireBwrap(t)
		scratch := t.TempDir()
		tries(t, exec.Command("bwrap", append([]string{"--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev",
			"--tmpfs", "/tmp", "--tmpfs", "/var/tmp", "--ro-bind", layout, layout, "--bind", scratch, scratch, "--setenv", "HOME", scratch, "--unsetenv", "XDG_CACHE_HOME"}, kit...)...),
			"proc.41") // there is no other user
	})
	t.Run("native", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		config := filepath.Join(dir, "c.hcl")
		if err := os.WriteFile(config, []byte("sandbox \"outer\" {\n  engine     = \"native\"\n  bind_paths = [\""+layout+"\"]\n}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		ws := filepath.Join(dir, "ws")
		if err := os.Mkdir(ws, 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program, append([]string{"exec", "-quiet", "-config", config, "-sandbox", "outer", "--"}, kit...)...)
		cmd.Dir, cmd.Env = ws, append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+dir, "XDG_CACHE_HOME="+dir)
		// What the outer sandbox refuses to everybody is no control for the inner one.
		tries(t, cmd, "proc.41", "write.31", "write.32", "write.33", "write.34", "write.35", "command.16")
	})
	t.Run("docker", func(t *testing.T) {
		t.Parallel()
		d, err := dockerd.Docker.Start(t.Context())
		if errors.Is(err, dockerd.ErrMissing) && !required("docker") {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.Stop)
		run := []string{"-H", "unix://" + d.Socket, "run", "--rm", "--network=none", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp:exec,mode=1777", "-e", "HOME=/root"}
		for inside, host := range map[string]string{layout: layout, "/usr": "/usr", "/bin": "/usr/bin", "/lib": "/usr/lib", "/lib64": "/usr/lib64"} {
			if _, err := os.Stat(host); err == nil { // the host's programs, of which the image has few
				run = append(run, "-v", host+":"+inside+":ro")
			}
		}
		tries(t, exec.Command("docker", append(append(run, dockerd.Image), kit...)...),
			"net.24") // there every port is anybody's
	})
}

// Where Landlock keeps no signals inside, a command can kill its init and outlive it. It does not hold
// up sbxhost by the output that it keeps open.
func TestLandlockOutlivesItsInit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	build(t, dir, "cmd/sbxhost")
	ws, config := filepath.Join(dir, "ws"), filepath.Join(dir, "c.hcl")
	if err := errors.Join(os.Mkdir(ws, 0o700),
		os.WriteFile(config, []byte("sandbox \"old\" {\n  engine    = \"landlock\"\n  isolation = \"best_effort\"\n  config {\n    abi = 5\n  }\n}\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "sbxhost"), "exec", "-quiet", "-config", config, "--", "sh", "-c", "echo $$; kill -KILL $PPID; exec sleep 1000")
	cmd.Dir, cmd.Env = ws, append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+dir, "XDG_CACHE_HOME="+dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	var pid int
	if err == nil {
		_, err = fmt.Fscan(out, &pid)
	}
	if err != nil {
		t.Fatal(err)
	}
	state, err := cmd.Process.Wait() // and not for who has its output
	if err != nil || state.ExitCode() != 125 {
		t.Errorf("%v, %v", state, err)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Errorf("the command has not outlived it: %v", err)
	}
}
