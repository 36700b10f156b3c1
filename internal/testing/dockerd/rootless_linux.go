package dockerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// MissingRootlessPodman is an error that wraps ErrMissing where
// StartRootlessPodman cannot work: where the kernel lets nobody but root make
// user namespaces, too.
func MissingRootlessPodman() error {
	return missingRootless("podman", "runc")
}

// MissingRootlessDocker is the same for StartRootlessDocker.
func MissingRootlessDocker() error {
	return missingRootless("dockerd", "rootlesskit", "unshare")
}

func missingRootless(programs ...string) error {
	if os.Geteuid() == 0 {
		return fmt.Errorf("%w: it takes an ordinary user", ErrUser)
	}
	if err := installed(append(programs, "busybox", "newuidmap", "newgidmap")...); err != nil {
		return err
	}
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		if err := subordinate(file); err != nil {
			return err
		}
	}
	probe := exec.Command("/bin/true")
	probe.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	if err := probe.Run(); err != nil {
		return fmt.Errorf("%w: the kernel refuses user namespaces: %w", ErrMissing, err)
	}
	return nil
}

// subordinate is an error where a file of subordinate numbers has none for this user.
func subordinate(file string) error {
	names := []string{strconv.Itoa(os.Geteuid())}
	if u, err := user.Current(); err == nil {
		names = append(names, u.Username)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMissing, err)
	}
	for line := range strings.Lines(string(raw)) {
		if name, _, ok := strings.Cut(line, ":"); ok && slices.Contains(names, name) {
			return nil
		}
	}
	return fmt.Errorf("%w: %s has no numbers for this user", ErrMissing, file)
}

// StartRootlessPodman starts Podman's service as an ordinary user and imports
// the images. Without systemd it has no control groups.
func StartRootlessPodman(ctx context.Context) (*Daemon, error) {
	return start(ctx, "podman", MissingRootlessPodman, (*Daemon).rootlessPodman)
}

func (d *Daemon) rootlessPodman(program string) (*exec.Cmd, error) {
	words, err := d.podmanWords(program)
	if err != nil {
		return nil, err
	}
	own := filepath.Join(d.dir, "xdg")
	if err := os.Mkdir(own, 0o700); err != nil {
		return nil, err
	}
	command := func(more ...string) *exec.Cmd {
		cmd := exec.Command(words[0], slices.Concat(words[1:], more)...)
		cmd.Dir = d.dir
		cmd.Env = append(d.podmanEnv(), "XDG_RUNTIME_DIR="+own)
		return cmd
	}
	d.cleanUp = func() {
		// The service is a child of what was started, and may outlive that.
		syscall.Kill(-d.pid, syscall.SIGKILL)
		// Directories of users that this one is mapped to are theirs to empty.
		remove := command("unshare", "/bin/rm", "-rf", filepath.Join(d.dir, "data"))
		remove.Env = append(remove.Env, "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME="+d.dir)
		remove.Run()
		endPause(filepath.Join(d.dir, "tmp", "pause.pid"))
	}
	return command(d.service()...), nil
}

// StartRootlessDocker starts a Docker daemon as an ordinary user and imports the
// images. It has neither control groups nor a network beyond its own loopback.
func StartRootlessDocker(ctx context.Context) (*Daemon, error) {
	return start(ctx, "dockerd", MissingRootlessDocker, (*Daemon).rootlessDocker)
}

func (d *Daemon) rootlessDocker(program string) (*exec.Cmd, error) {
	kit, err := look("rootlesskit")
	if err != nil {
		return nil, err
	}
	daemon, err := d.dockerd(program)
	if err != nil {
		return nil, err
	}
	own := filepath.Join(d.dir, "xdg")
	if err := os.Mkdir(own, 0o700); err != nil {
		return nil, err
	}
	words := func(more ...string) []string {
		return slices.Concat([]string{"--state-dir", filepath.Join(d.dir, "kit"), "--net=host", "--copy-up=/etc", "--copy-up=/run", "--propagation=rslave"}, more)
	}
	// What /run shows of the machine's own daemon is in the way of this one's.
	cmd := exec.Command(kit, words(slices.Concat([]string{"/bin/sh", "-c", `rm -rf /run/docker /run/containerd; exec unshare -n "$@"`, "sh"},
		daemon.Args, []string{"--rootless", "--storage-driver", "vfs"})...)...)
	cmd.Env = []string{"XDG_RUNTIME_DIR=" + own}
	d.cleanUp = func() {
		remove := exec.Command(kit, words("/bin/rm", "-rf", filepath.Join(d.dir, "data"))...)
		remove.Env = append(cmd.Env, "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME="+d.dir)
		remove.Run()
	}
	return cmd, nil
}

// endPause ends the process that holds Podman's user namespace for the next
// one's use, which nothing else does.
func endPause(file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(raw)))
	if err != nil || pid < 2 {
		return errors.New("no process is named there")
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}
