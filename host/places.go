package host

import (
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/scan"
)

// stateDir is where sbxhost keeps what must outlast it, for this user alone:
// $XDG_STATE_HOME/sbxhost, else ~/.local/state/sbxhost; empty without either.
func (c caller) stateDir() string {
	if dir, _ := c.lookupEnv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "sbxhost")
	}
	if c.home == "" {
		return ""
	}
	return filepath.Join(c.home, ".local/state/sbxhost")
}

// treeMemory is what former processes have found in the trees of a workspace. It is kept
// for so many workspaces; those that share a file forget one another.
func (h *Host) treeMemory(root string) *scan.Memory {
	const files = 64
	dir := h.caller.stateDir()
	info, err := os.Lstat(dir)
	if err != nil || !ownedPrivately(info) {
		return nil // with the HOME of a user, root keeps nothing there
	}
	hash := fnv.New32a()
	io.WriteString(hash, root)
	return scan.NewMemory(filepath.Join(dir, fmt.Sprintf("trees%02d", hash.Sum32()%files)))
}

// ownPlaces lists what sbxhost would run, or take for its user's word, if it were
// there the next time: no command must put it there.
func (h *Host) ownPlaces(owner *owner) (list []view.Own) {
	add := func(dir, what string, names ...string) {
		if filepath.IsAbs(dir) {
			list = append(list, view.Own{Dir: dir, What: what, Names: names})
		}
	}
	for _, dir := range h.options.EnginePath {
		add(filepath.Dir(dir), "engines that are installed", filepath.Base(dir))
	}
	programs := []string{"sbxhost-init", "sbxhost-telemetry"}
	for _, name := range slices.Concat(h.EngineNames(), separateEngines[:]) {
		programs = append(programs, enginePrefix+name)
	}
	add(h.options.EngineDir, "a program of sbxhost", programs...)
	if exe, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(exe); err == nil {
			exe = resolved
		}
		add(filepath.Dir(exe), "a program of sbxhost", programs...)
	}
	const config = "a configuration of yours"
	if dir, _ := h.caller.lookupEnv("XDG_CONFIG_HOME"); dir != "" {
		add(dir, config, "sbxhost")
	}
	if h.caller.home != "" {
		add(filepath.Join(h.caller.home, ".config"), config, "sbxhost")
	}
	// Another one may be in force for this command.
	if path, _ := h.caller.lookupEnv("SBXHOST_CONFIG"); path != "" {
		if !filepath.IsAbs(path) {
			path = filepath.Join(h.dir, path)
		}
		add(filepath.Dir(path), config, filepath.Base(path))
	}
	if owner != nil && owner.home != "" {
		add(owner.home, "sbxhost of the workspace's owner", ".config/sbxhost", ".local/state/sbxhost", ".local/share/sbxhost/engines")
	}
	path, _ := h.caller.lookupEnv("PATH")
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) {
			list = append(list, view.Own{Dir: dir, What: "a program that sbxhost runs", Names: programsRun(), ByBind: true})
		}
	}
	return list
}

// enginePlaces lists where this caller's engines come from that are not installed
// with this program: directories of Options.EnginePath, and sources of entries of
// Options.Engines.
func (h *Host) enginePlaces() (list []view.Relied) {
	for _, dir := range h.options.EnginePath {
		list = append(list, view.Relied{Path: dir, What: "engines that are installed"})
	}
	for _, name := range slices.Sorted(maps.Keys(h.options.Engines)) {
		if source := h.declaredPath(h.options.Engines[name]); filepath.IsAbs(source) {
			list = append(list, view.Relied{Path: source, What: "engine " + name})
		}
	}
	return list
}

// programsRun are the programs that this one looks for in PATH, and its own name:
// who finds another there the next time runs that.
func programsRun() []string {
	names := []string{"git", "gh", "sbxhost"}
	if exe, err := os.Executable(); err == nil && !slices.Contains(names, filepath.Base(exe)) {
		names = append(names, filepath.Base(exe))
	}
	return names
}

// reliesOn lists what sbxhost obeys or runs what lies at, as it is spelled. A
// command that replaces a symlink on the way leads the next sbxhost to what it has
// made itself.
func (h *Host) reliesOn() (list []view.Relied) {
	for _, p := range h.options.Protected {
		list = append(list, view.Relied{Path: p, What: "the configuration in force"})
	}
	for _, record := range h.resolver.recorded {
		list = append(list, view.Relied{Path: record.path, What: record.what})
	}
	if dir := h.caller.stateDir(); dir != "" {
		list = append(list, view.Relied{Path: dir, What: "what sbxhost remembers"})
	}
	for _, name := range slices.Sorted(maps.Keys(h.options.Engines)) {
		list = append(list, view.Relied{Path: h.declaredPath(h.options.Engines[name]), What: fmt.Sprintf("the source of engine %q", name)})
	}
	return list
}

// controlSockets are those of this caller. A path that ends in a slash is a
// directory of sockets.
func (r *resolver) controlSockets() []view.ControlSocket {
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
		{Path: "/run/dbus/system_bus_socket", Gives: "the services of the system, over D-Bus", Always: true, Asked: true},
		{Path: "/run/systemd/private", Gives: "the control of the system's services", Always: true},
		{Path: "/tmp/.X11-unix/", Gives: "every keystroke and window of the X11 session", Asked: true},
	}
	runtimes := []string{filepath.Join("/run/user", strconv.Itoa(int(r.uid())))}
	if dir, _ := r.caller.lookupEnv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && !slices.Contains(runtimes, filepath.Clean(dir)) {
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
			{Path: "bus", Gives: "programs that run as you, outside of any sandbox, over D-Bus", Asked: true},
			{Path: "wayland-0", Gives: "the windows and the clipboard of the Wayland session", Asked: true},
			{Path: "wayland-1", Gives: "the windows and the clipboard of the Wayland session", Asked: true},
		} {
			s.Path, s.Always = filepath.Join(dir, s.Path), always
			list = append(list, s)
		}
		if name, _ := r.caller.lookupEnv("WAYLAND_DISPLAY"); name != "" {
			if !filepath.IsAbs(name) {
				name = filepath.Join(dir, name)
			}
			list = append(list, view.ControlSocket{Path: filepath.Clean(name), Gives: "the windows and the clipboard of the Wayland session", Asked: true})
		}
	}
	for _, home := range [...]string{r.home(), r.caller.home} {
		if home == "" {
			continue
		}
		for _, p := range [...]string{".docker/run/docker.sock", ".docker/desktop/docker.sock", ".colima/default/docker.sock", ".rd/docker.sock", ".orbstack/run/docker.sock"} {
			list = append(list, view.ControlSocket{Path: filepath.Join(home, p), Gives: "containers that mount all that is yours"})
		}
	}
	for _, variable := range [...]string{"DOCKER_HOST", "CONTAINER_HOST", "BUILDKIT_HOST", "CONTAINERD_ADDRESS", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS"} {
		value, _ := r.caller.lookupEnv(variable)
		if p := socketIn(value); p != "" {
			list = append(list, view.ControlSocket{Path: p, Gives: "what " + variable + " is for", Asked: strings.HasPrefix(variable, "DBUS_")})
		}
	}
	for _, p := range r.control {
		list = append(list, view.ControlSocket{Path: p, Gives: "what workspace.control_sockets names it for", Always: true})
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

// listedSockets are the socket files that the kernel lists for this network
// namespace. It knows none that was bound by a relative path, or elsewhere: what
// is shown is searched besides.
func listedSockets() (list []string) {
	data, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		if i := strings.IndexByte(line, '/'); i >= 0 {
			if p := strings.TrimSuffix(line[i:], "\n"); filepath.Clean(p) == p {
				list = append(list, p)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
