package dockerd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
)

// A Kind is a kind of daemon.
type Kind struct {
	name     string   // the daemon's program
	needs    []string // other programs
	rootless bool
}

// Docker runs as root, and RootlessDocker as an ordinary user, without control groups and without a
// network beyond its own loopback. The kinds of Podman only say whether it is installed.
var (
	Docker         = Kind{name: "dockerd"}
	Podman         = Kind{name: "podman", needs: []string{"runc"}}
	RootlessPodman = Kind{name: "podman", needs: []string{"runc"}, rootless: true}
	RootlessDocker = Kind{name: "dockerd", needs: []string{"rootlesskit", "unshare"}, rootless: true}
)

// Missing returns an error that wraps ErrMissing if Start cannot work.
func (k Kind) Missing() error {
	if root := os.Geteuid() == 0; root == k.rootless {
		return fmt.Errorf("%w: root is needed: %v", ErrUser, !k.rootless)
	}
	programs := append([]string{k.name, "busybox"}, k.needs...)
	if k.rootless {
		programs = append(programs, "newuidmap", "newgidmap")
	}
	for _, name := range programs {
		if look(name) == "" {
			return fmt.Errorf("%w: %s is not installed", ErrMissing, name)
		}
	}
	if !k.rootless {
		return nil
	}
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		if err := subordinate(file); err != nil {
			return fmt.Errorf("%w: %w", ErrMissing, err)
		}
	}
	probe := exec.Command("/bin/true")
	probe.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	if err := probe.Run(); err != nil {
		return fmt.Errorf("%w: the kernel refuses user namespaces: %w", ErrMissing, err)
	}
	return nil
}

// look finds a program that may be only in root's PATH; "" if it is not installed.
func look(name string) string {
	for _, dir := range []string{"/usr/sbin", "/usr/bin", "/usr/local/bin", "/bin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	return ""
}

// subordinate returns an error if a file of subordinate numbers has none for this user.
func subordinate(file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	me, err := user.Current()
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(raw)) {
		if name, _, _ := strings.Cut(line, ":"); name == me.Username || name == me.Uid {
			return nil
		}
	}
	return fmt.Errorf("%s has no numbers for this user", file)
}

func (d *Daemon) at(name string) string { return filepath.Join(d.dir, name) }

func (d *Daemon) dockerd() []string {
	words := []string{look("dockerd"), "--iptables=false", "--ip-forward=false", "--ip-masq=false",
		"--data-root", d.at("data"), "--exec-root", d.at("exec"), "--pidfile", d.at("pid"), "-H", "unix://" + d.Socket}
	if !d.kind.rootless {
		return words
	}
	// The machine's own daemon may be in /run.
	words = append([]string{"/bin/sh", "-c", `rm -rf /run/docker /run/containerd; exec unshare -n "$@"`, "sh"}, words...)
	return d.rootlesskit(append(words, "--rootless", "--storage-driver", "vfs")...)
}

func (d *Daemon) rootlesskit(words ...string) []string {
	return append([]string{look("rootlesskit"), "--state-dir", d.at("kit"), "--net=host", "--copy-up=/etc", "--copy-up=/run", "--propagation=rslave"}, words...)
}

// cleanUp removes what belongs to other users, after a rootless daemon has ended.
func (d *Daemon) cleanUp() {
	syscall.Kill(-d.pid, syscall.SIGKILL) // a service may outlive the parent that was started
	d.command(context.Background(), d.rootlesskit("/bin/rm", "-rf", d.at("data"))).Run()
}
