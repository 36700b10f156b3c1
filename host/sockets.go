package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

const socketOrigin = "socket file, not in unix_sockets"

// A controlSocket is one that whoever can connect to it gets more by than any
// sandbox holds.
type controlSocket struct {
	path  string
	gives string // what it would give away
	// always says that directories above it are refused even while it is not
	// there: the service may be started any time.
	always bool
	// asked says that it can be had by its name in unix_sockets.
	asked bool
}

// controlSockets are those of this caller. A path that ends in a slash is a
// directory of sockets.
func (r *resolver) controlSockets() []controlSocket {
	const containers = "containers that mount the whole host, as root"
	list := []controlSocket{
		{path: "/run/docker.sock", gives: containers, always: true},
		{path: "/var/run/docker.sock", gives: containers, always: true},
		{path: "/run/containerd/containerd.sock", gives: containers, always: true},
		{path: "/run/k3s/containerd/containerd.sock", gives: containers, always: true},
		{path: "/run/crio/crio.sock", gives: containers, always: true},
		{path: "/run/podman/podman.sock", gives: containers, always: true},
		{path: "/run/buildkit/buildkitd.sock", gives: "builds that run as root on the host", always: true},
		{path: "/run/libvirt/libvirt-sock", gives: "virtual machines with the host's disks", always: true},
		{path: "/run/libvirt/virtqemud-sock", gives: "virtual machines with the host's disks", always: true},
		{path: "/var/lib/lxd/unix.socket", gives: containers, always: true},
		{path: "/var/lib/incus/unix.socket", gives: containers, always: true},
		{path: "/var/snap/lxd/common/lxd/unix.socket", gives: containers, always: true},
		{path: "/run/dbus/system_bus_socket", gives: "the services of the system, over D-Bus", always: true, asked: true},
		{path: "/run/systemd/private", gives: "the control of the system's services", always: true},
		{path: "/tmp/.X11-unix/", gives: "every keystroke and window of the X11 session", asked: true},
	}
	runtimes := []string{filepath.Join("/run/user", strconv.Itoa(int(r.uid())))}
	if dir, _ := r.caller.lookupEnv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && !slices.Contains(runtimes, filepath.Clean(dir)) {
		runtimes = append(runtimes, filepath.Clean(dir))
	}
	for _, dir := range runtimes {
		always := strings.HasPrefix(dir, "/run/user/")
		for _, s := range []controlSocket{
			{path: "podman/podman.sock", gives: "containers that mount all that is yours"},
			{path: "docker.sock", gives: "containers that mount all that is yours"},
			{path: "buildkit/buildkitd.sock", gives: "builds that mount all that is yours"},
			{path: "containerd/containerd.sock", gives: "containers that mount all that is yours"},
			{path: "libvirt/libvirt-sock", gives: "virtual machines that mount all that is yours"},
			{path: "systemd/private", gives: "programs that run as you, outside of any sandbox"},
			{path: "bus", gives: "programs that run as you, outside of any sandbox, over D-Bus", asked: true},
			{path: "wayland-0", gives: "the windows and the clipboard of the Wayland session", asked: true},
			{path: "wayland-1", gives: "the windows and the clipboard of the Wayland session", asked: true},
		} {
			s.path, s.always = filepath.Join(dir, s.path), always
			list = append(list, s)
		}
		if name, _ := r.caller.lookupEnv("WAYLAND_DISPLAY"); name != "" {
			if !filepath.IsAbs(name) {
				name = filepath.Join(dir, name)
			}
			list = append(list, controlSocket{path: filepath.Clean(name), gives: "the windows and the clipboard of the Wayland session", asked: true})
		}
	}
	for _, home := range [...]string{r.home(), r.caller.home} {
		if home == "" {
			continue
		}
		for _, p := range [...]string{".docker/run/docker.sock", ".docker/desktop/docker.sock", ".colima/default/docker.sock", ".rd/docker.sock", ".orbstack/run/docker.sock"} {
			list = append(list, controlSocket{path: filepath.Join(home, p), gives: "containers that mount all that is yours"})
		}
	}
	for _, variable := range [...]string{"DOCKER_HOST", "CONTAINER_HOST", "BUILDKIT_HOST", "CONTAINERD_ADDRESS", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS"} {
		value, _ := r.caller.lookupEnv(variable)
		if p := socketIn(value); p != "" {
			list = append(list, controlSocket{path: p, gives: "what " + variable + " is for", asked: strings.HasPrefix(variable, "DBUS_")})
		}
	}
	for _, p := range r.control {
		list = append(list, controlSocket{path: p, gives: "what workspace.control_sockets names it for", always: true})
	}
	return list
}

// socketIn finds the path in what a variable holds: "unix:///path", a path, or a
// D-Bus address such as "unix:path=/path,guid=1".
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

// refuseControl refuses mounts that show a control socket, or a directory above
// one. A read-only mount does not keep anybody from connecting.
func (r *resolver) refuseControl(m *mounts, granted []string) error {
	for _, s := range r.controlSockets() {
		dir := strings.HasSuffix(s.path, "/")
		led, info, err := follow(s.path)
		if err != nil {
			led, info = filepath.Clean(s.path), nil
		}
		there := info != nil && (dir || info.Mode()&fs.ModeSocket != 0)
		for _, have := range m.spec.Table {
			if have.Access == shared.Private || have.Source == "" {
				continue
			}
			at := have.Source == led || dir && inside(led, have.Source)
			// One in the workspace itself is found there, and hidden.
			above := inside(have.Source, led) && (s.always || there && have.Why != "workspace")
			switch {
			case !at && !above:
			case s.asked && at && slices.Contains(granted, have.Source):
			case have.Source == "/": // the view of the whole host, which hides them
			default:
				hint := "bind what is needed of it, and not this"
				if s.asked {
					hint = fmt.Sprintf("name the socket in unix_sockets if that is meant: %q", led)
				}
				shows := fmt.Sprintf("%s shows the control socket %s", have.Source, led)
				if have.Source == led {
					shows = led + " is a control socket"
				}
				return attributeError(have.Why, fmt.Sprintf("%s, which gives %s", shows, s.gives), hint)
			}
		}
	}
	return nil
}

// hideControlSockets hides those that the view of the whole host would show.
func (r *resolver) hideControlSockets(h *hiding) {
	for _, s := range r.controlSockets() {
		if led, info, err := follow(s.path); err == nil && info != nil && info.Mode()&fs.ModeSocket != 0 && !h.shown(led) {
			h.hide(led, false, "control socket")
		}
	}
}

// grantedSockets are the socket files that a definition names, resolved.
func (r *resolver) grantedSockets(d Definition) ([]string, error) {
	var list []string
	for i, text := range d.UnixSockets {
		attribute := fmt.Sprintf("unix_sockets[%d]", i)
		switch {
		case text == "" || strings.IndexByte(text, 0) >= 0:
			return nil, attributeError(attribute, fmt.Sprintf("%q is no path", text), "")
		case slices.Contains(strings.Split(text, "/"), ".."):
			return nil, attributeError(attribute, fmt.Sprintf("%q has a \"..\" component", text), "write the path that is meant")
		case (text == "~" || strings.HasPrefix(text, "~/")) && r.home() == "":
			return nil, attributeError(attribute, fmt.Sprintf("%q: no home directory is known", text), "set HOME or write an absolute path")
		}
		p, info, err := follow(r.hostSpelling(text))
		switch {
		case err != nil && !errors.Is(err, fs.ErrPermission):
			return nil, attributeError(attribute, err.Error(), "")
		case info == nil:
			continue // not there now, and hidden if it comes to be
		case info.Mode()&fs.ModeSocket == 0:
			return nil, attributeError(attribute, fmt.Sprintf("%s is not a socket", p), "name the socket file itself")
		}
		list = append(list, p)
	}
	return list, nil
}

// mountSockets shows the sockets that a definition names where nothing else
// shows them.
func (r *resolver) mountSockets(m *mounts, d Definition) error {
	for i, text := range d.UnixSockets {
		p, info, err := follow(r.hostSpelling(text))
		if err != nil || info == nil || len(m.places(p)) > 0 {
			continue // what is wrong with it is said by grantedSockets
		}
		attribute := fmt.Sprintf("unix_sockets[%d]", i)
		if err := m.planted(attribute, r.hostSpelling(text)); err != nil {
			return err
		}
		mount := shared.Entry{Source: p, Path: p, Why: attribute, Access: shared.ReadOnly}
		if err := m.add(mount); err != nil {
			return err
		}
		if err := m.addSpelling(mount, r.hostSpelling(text)); err != nil {
			return err
		}
	}
	return nil
}
