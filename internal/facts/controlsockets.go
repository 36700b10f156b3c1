//go:build unix

package facts

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/internal/view"
)

// controlSockets are those of this caller. A path with a slash at its end is a directory of
// sockets.
func (m *Machine) controlSockets() []view.ControlSocket {
	const containers = "containers that mount the whole host, as root"
	list := []view.ControlSocket{
		{Path: "/run/docker.sock", Gives: containers, Always: true},
		{Path: "/var/run/docker.sock", Gives: containers, Always: true},
		{Path: "/run/containerd/containerd.sock", Gives: containers, Always: true},
		{Path: "/run/k3s/containerd/containerd.sock", Gives: containers, Always: true},
		{Path: "/run/crio/crio.sock", Gives: containers, Always: true},
		{Path: "/run/podman/podman.sock", Gives: containers, Always: true},
		{Path: "/run/buildkit/buildkitd.sock", Gives: "builds that run as root on the host", Always: true},
		{Path: "/run/libvirt/libvirt-sock", Gives: "virtual machines with the host's disks", Always: true},
		{Path: "/run/libvirt/virtqemud-sock", Gives: "virtual machines with the host's disks", Always: true},
		{Path: "/var/lib/lxd/unix.socket", Gives: containers, Always: true},
		{Path: "/var/lib/incus/unix.socket", Gives: containers, Always: true},
		{Path: "/var/snap/lxd/common/lxd/unix.socket", Gives: containers, Always: true},
		{Path: "/run/dbus/system_bus_socket", Gives: "the services of the system, over D-Bus", Always: true, OnRequest: true},
		{Path: "/run/systemd/private", Gives: "the control of the system's services", Always: true},
		{Path: "/tmp/.X11-unix/", Gives: "every keystroke and window of the X11 session", OnRequest: true},
	}
	runtimes := []string{filepath.Join("/run/user", strconv.Itoa(int(m.uid())))}
	if dir, _ := m.Caller.LookupEnv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && !slices.Contains(runtimes, filepath.Clean(dir)) {
		runtimes = append(runtimes, filepath.Clean(dir))
	}
	for _, dir := range runtimes {
		always := strings.HasPrefix(dir, "/run/user/")
		for _, s := range []view.ControlSocket{
			{Path: "podman/podman.sock", Gives: "containers that mount all that is yours"},
			{Path: "docker.sock", Gives: "containers that mount all that is yours"},
			{Path: "buildkit/buildkitd.sock", Gives: "builds that mount all that is yours"},
			{Path: "containerd/containerd.sock", Gives: "containers that mount all that is yours"},
			{Path: "libvirt/libvirt-sock", Gives: "virtual machines that mount all that is yours"},
			{Path: "systemd/private", Gives: "programs that run as you, outside of any sandbox"},
			{Path: "bus", Gives: "programs that run as you, outside of any sandbox, over D-Bus", OnRequest: true},
			{Path: "wayland-0", Gives: "the windows and the clipboard of the Wayland session", OnRequest: true},
			{Path: "wayland-1", Gives: "the windows and the clipboard of the Wayland session", OnRequest: true},
		} {
			s.Path, s.Always = filepath.Join(dir, s.Path), always
			list = append(list, s)
		}
		if name, _ := m.Caller.LookupEnv("WAYLAND_DISPLAY"); name != "" {
			if !filepath.IsAbs(name) {
				name = filepath.Join(dir, name)
			}
			list = append(list, view.ControlSocket{Path: filepath.Clean(name), Gives: "the windows and the clipboard of the Wayland session", OnRequest: true})
		}
	}
	for _, home := range [...]string{m.home(), m.Caller.Home} {
		if home == "" {
			continue
		}
		for _, p := range [...]string{".docker/run/docker.sock", ".docker/desktop/docker.sock", ".colima/default/docker.sock", ".rd/docker.sock", ".orbstack/run/docker.sock"} {
			list = append(list, view.ControlSocket{Path: filepath.Join(home, p), Gives: "containers that mount all that is yours"})
		}
	}
	for _, variable := range [...]string{"DOCKER_HOST", "CONTAINER_HOST", "BUILDKIT_HOST", "CONTAINERD_ADDRESS", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS"} {
		value, _ := m.Caller.LookupEnv(variable)
		if p := socketIn(value); p != "" {
			list = append(list, view.ControlSocket{Path: p, Gives: "what " + variable + " is for", OnRequest: strings.HasPrefix(variable, "DBUS_")})
		}
	}
	return list
}

// socketIn finds the path in a variable's value: "unix:///path", a path, or a D-Bus address such as
// "unix:path=/path,guid=1".
func socketIn(value string) string {
	p := value
	if i := strings.Index(value, "path="); strings.HasPrefix(value, "unix:") && i >= 0 {
		p, _, _ = strings.Cut(value[i+len("path="):], ",")
		p, _, _ = strings.Cut(p, ";")
	} else if rest, ok := strings.CutPrefix(value, "unix://"); ok {
		p = rest
	}
	if !filepath.IsAbs(p) {
		return ""
	}
	return filepath.Clean(p)
}
