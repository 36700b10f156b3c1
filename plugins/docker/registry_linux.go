package docker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/moby/moby/api/types/registry"

	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/shared"
)

// helperTime bounds how long a credential helper may take, which can ask a person.
const helperTime = time.Minute

// helperAnswer bounds what one may say.
const helperAnswer = 1 << 20

// login gives what Docker's command line would log in to a registry with. None is
// not an error: the registry may be open to everybody.
func (e *engine) login(ctx context.Context, of string) (auth registry.AuthConfig, ok bool, err error) {
	dir := e.surroundings.configDir()
	if dir == "" || of == "" {
		return auth, false, nil
	}
	file := filepath.Join(dir, "config.json")
	raw, err := e.surroundings.read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return auth, false, nil
	}
	var l *logins
	if err == nil {
		l, err = parseLogins(raw)
	}
	if err != nil {
		return auth, false, &shared.Error{Kind: shared.ErrUnavailable, Message: "the logins to registries: " + file + ": " + err.Error()}
	}
	if helper := l.helper(of); helper != "" {
		return e.askHelper(ctx, helper, of)
	}
	auth, ok = l.stored(of)
	return auth, ok, nil
}

// askHelper runs a credential helper, outside of the sandbox, as Docker's command
// line does, but never from PATH: the workspace could supply its own.
func (e *engine) askHelper(ctx context.Context, name, of string) (auth registry.AuthConfig, ok bool, err error) {
	failed := func(err error) error {
		return &shared.Error{Kind: shared.ErrUnavailable, Message: "the credential helper docker-credential-" + name + ": " + err.Error(),
			Hint: "fetch the image with docker pull"}
	}
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`).MatchString(name) {
		return auth, false, failed(errors.New("is no name of a program"))
	}
	program, err := findHelper(e.surroundings.helpers, name)
	if err != nil {
		return auth, false, failed(err)
	}
	ctx, cancel := context.WithTimeout(ctx, helperTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "get")
	cmd.Dir, cmd.Stdin = "/", strings.NewReader(of)
	getenv := e.surroundings.getenv
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + getenv("HOME"), "DOCKER_CONFIG=" + e.surroundings.configDir()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return auth, false, failed(err)
	}
	raw, err := io.ReadAll(io.LimitReader(out, helperAnswer))
	if e := cmd.Wait(); err == nil {
		err = e
	}
	switch {
	case err != nil && bytes.Contains(raw, []byte("credentials not found")):
		return auth, false, nil
	case err != nil:
		return auth, false, failed(err) // without what it said: that may be a secret
	}
	if auth, ok = helped(of, raw); !ok {
		return auth, false, failed(errors.New("does not give a login"))
	}
	return auth, true, nil
}

// helperDirs are where systems install them.
var helperDirs = [...]string{"/usr/local/bin", "/usr/bin", "/bin"}

func findHelper(dirs []string, name string) (string, error) {
	for _, dir := range dirs {
		path := filepath.Join(dir, "docker-credential-"+name)
		resolved, err := filepath.EvalSymlinks(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		info, err := os.Stat(resolved)
		if err == nil {
			err = hostpath.CheckExecutable(resolved, info)
		}
		return resolved, err
	}
	return "", errors.New("is not in " + strings.Join(dirs, ", "))
}
