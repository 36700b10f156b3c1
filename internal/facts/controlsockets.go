//go:build unix

package facts

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/internal/view"
)

// controlSockets are the sockets of services that give this caller more than any sandbox permits.
func (m *Machine) controlSockets() (list []view.ControlSocket) {
	add := func(s view.ControlSocket, sockets ...string) {
		for _, s.Path = range sockets {
			list = append(list, s)
		}
	}
	const yours, wayland = "containers that mount all that is yours", "the windows and the clipboard of the Wayland session"
	add(view.ControlSocket{Gives: "containers that mount the whole host, as root", Always: true},
		"/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/k3s/containerd/containerd.sock", "/run/crio/crio.sock",
		"/run/podman/podman.sock", "/var/lib/lxd/unix.socket", "/var/lib/incus/unix.socket", "/var/snap/lxd/common/lxd/unix.socket")
	add(view.ControlSocket{Gives: "builds that run as root on the host", Always: true}, "/run/buildkit/buildkitd.sock")
	add(view.ControlSocket{Gives: "virtual machines with the host's disks", Always: true}, "/run/libvirt/libvirt-sock", "/run/libvirt/virtqemud-sock")
	add(view.ControlSocket{Gives: "the services of the system, over D-Bus", Always: true, OnRequest: true}, "/run/dbus/system_bus_socket")
	add(view.ControlSocket{Gives: "the control of the system's services", Always: true}, "/run/systemd/private")
	add(view.ControlSocket{Gives: "every keystroke and window of the X11 session", OnRequest: true}, "/tmp/.X11-unix/")
	runtimes := []string{filepath.Join("/run/user", strconv.Itoa(int(m.uid())))}
	if dir := m.Caller.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && !slices.Contains(runtimes, filepath.Clean(dir)) {
		runtimes = append(runtimes, filepath.Clean(dir))
	}
	display := m.Caller.Getenv("WAYLAND_DISPLAY")
	for _, dir := range runtimes {
		in := func(name string) string { return filepath.Join(dir, name) }
		always := strings.HasPrefix(dir, "/run/user/")
		add(view.ControlSocket{Gives: yours, Always: always}, in("podman/podman.sock"), in("docker.sock"), in("containerd/containerd.sock"))
		add(view.ControlSocket{Gives: "builds that mount all that is yours", Always: always}, in("buildkit/buildkitd.sock"))
		add(view.ControlSocket{Gives: "virtual machines that mount all that is yours", Always: always}, in("libvirt/libvirt-sock"))
		add(view.ControlSocket{Gives: "programs that run as you, outside of any sandbox", Always: always}, in("systemd/private"))
		add(view.ControlSocket{Gives: "programs that run as you, outside of any sandbox, over D-Bus", Always: always, OnRequest: true}, in("bus"))
		add(view.ControlSocket{Gives: wayland, Always: always, OnRequest: true}, in("wayland-0"), in("wayland-1"))
		if display != "" {
			add(view.ControlSocket{Gives: wayland, OnRequest: true}, view.Absolute(in("~"), dir, display))
		}
	}
	for _, home := range [...]string{m.home(), m.Caller.Home} {
		for _, p := range [...]string{".docker/run/docker.sock", ".docker/desktop/docker.sock", ".colima/default/docker.sock", ".rd/docker.sock", ".orbstack/run/docker.sock"} {
			if home != "" {
				add(view.ControlSocket{Gives: yours}, filepath.Join(home, p))
			}
		}
	}
	for _, variable := range [...]string{"DOCKER_HOST", "CONTAINER_HOST", "BUILDKIT_HOST", "CONTAINERD_ADDRESS", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS"} {
		if p := socketIn(m.Caller.Getenv(variable)); p != "" {
			add(view.ControlSocket{Gives: "what " + variable + " is for", OnRequest: strings.HasPrefix(variable, "DBUS_")}, p)
		}
	}
	return list
}

// socketIn finds the path in a variable's value: "unix:///path", a path, or a D-Bus address such as
// "unix:path=/path,guid=1".
func socketIn(value string) string {
	if m := socketAddress.FindStringSubmatch(value); m != nil {
		return filepath.Clean(m[1] + m[2])
	}
	return ""
}

var socketAddress = regexp.MustCompile("(?s)^unix:.*?path=(/[^,;]*)|^(?:unix://)?(/.*)")
