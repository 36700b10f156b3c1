package dockerd

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
)

// MissingPodman is an error that wraps ErrMissing where StartPodman cannot work.
func MissingPodman() error {
	return errors.Join(asRoot(), installed("podman", "runc", "busybox", "mount"))
}

// StartPodman starts Podman's service and imports the images.
func StartPodman(ctx context.Context) (*Daemon, error) {
	return start(ctx, "podman", MissingPodman, (*Daemon).podman)
}

// podmanConf has locks in the daemon's directory and not in the machine's shared
// memory, and leaves limits as they are: to raise them takes a right that root
// need not have.
const podmanConf = "[containers]\ndefault_ulimits = []\n[engine]\nlock_type = \"file\"\n"

// podman goes by runc, since crun refuses machines that have both versions of
// control groups.
func (d *Daemon) podman(program string) (*exec.Cmd, error) {
	words, err := d.podmanWords(program)
	if err != nil {
		return nil, err
	}
	// Where networks leave their state is nobody's to choose, so it is memory.
	cmd := exec.Command("/bin/sh", append([]string{"-c", `mount -t tmpfs none /run && mount -t tmpfs none /var/lib && exec "$@"`, "sh"},
		append(words, d.service()...)...)...)
	cmd.Dir = d.dir // where its monitors note what ran out of memory
	cmd.Env = d.podmanEnv()
	return cmd, nil
}

// podmanWords begin each of Podman's command lines.
func (d *Daemon) podmanWords(program string) ([]string, error) {
	runtime, err := look("runc")
	if err != nil {
		return nil, err
	}
	at := func(name string) string { return filepath.Join(d.dir, name) }
	return []string{program, "--root", at("data"), "--runroot", at("run"), "--tmpdir", at("tmp"), "--network-config-dir", at("net"),
		"--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--events-backend", "file",
		"--runtime", runtime, "--runtime-flag", "root=" + at("runtime")}, os.WriteFile(at("containers.conf"), []byte(podmanConf), 0o600)
}

func (d *Daemon) podmanEnv() []string {
	return []string{"CONTAINERS_CONF=" + filepath.Join(d.dir, "containers.conf")}
}

func (d *Daemon) service() []string {
	return []string{"system", "service", "--time", "0", "unix://" + d.Socket}
}

// removeContainers ends what a test has left: containers are no children of
// Podman's, and would outlive it.
func (d *Daemon) removeContainers() {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	answer, err := d.call(ctx, http.MethodGet, "/containers/json?all=true", nil)
	if err != nil {
		return
	}
	var list []struct{ ID string }
	if json.Unmarshal(answer, &list) != nil {
		return
	}
	for _, c := range list {
		d.call(ctx, http.MethodDelete, "/containers/"+c.ID+"?force=true&v=true", nil)
	}
}
