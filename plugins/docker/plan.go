package docker

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/sbxhost/sbxhost/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// Paths inside that are the engine's own.
const (
	ownDir     = "/.sbxhost"
	initInside = ownDir + "/init"
	lineInside = ownDir + "/line"
	socketName = "s"
)

const (
	// defaultPIDs bounds a container whose definition sets no limit: a fork bomb
	// must not take the machine along.
	defaultPIDs = 4096
	// initThreads is what the limit of processes leaves for the init, which the
	// daemon counts in: the threads of a Go program that does little, and of one
	// more while a command shares its container.
	initThreads = 16

	tempSizeMax = 4 << 30
	tempSizeMin = 64 << 20
)

// imageFacts are what a plan goes by, of an image.
type imageFacts struct {
	id      string
	name    string // for people
	volumes []string
	path    string // PATH of its configuration
}

// daemonFacts are what a plan goes by, of a daemon.
type daemonFacts struct {
	version  string
	podman   bool    // it is Podman that speaks Docker's API
	rootless bool    // uid 0 inside is who runs the daemon
	owner    *uint32 // of a rootless one; nil is unknown
	remapped bool    // uids inside are others of the host, unless asked otherwise
	// recursiveRO says that what is mounted below a read-only bind can be made
	// read-only as well.
	recursiveRO  bool
	limitsMemory bool
	limitsCPUs   bool
	limitsPIDs   bool
	cgroup       string // "1" or "2"
	cpus         int    // of its machine; 0 is unknown
}

// planner is all from which a container is made.
type planner struct {
	spec    *shared.Spec
	options *options
	limits  shared.Limits // the Spec's and the options' that can be held
	image   imageFacts
	daemon  daemonFacts
	memory  uint64 // of the machine
	self    shared.User
	// binds are the engine's own.
	binds  []shared.Entry
	caches []cacheVolume
	// network is that of a Compose project, or empty.
	network string
	// initFile and lineDir are what the engine binds for itself, on the host.
	initFile, lineDir string // lineDir may be empty
	labels            map[string]string
}

// plan is a container, as the daemon is asked for it.
type plan struct {
	config container.Config
	host   container.HostConfig
	ops    []shared.PlannedMount
	// hidden are the host's paths of what is masked, where it is the host's.
	hidden []string
	// masked are the same paths as the container has them.
	masked []string
}

// defaultMasked and defaultReadOnly are what Docker hides and protects in every
// container: lists of our own would otherwise take the place of its own.
var (
	defaultMasked = [...]string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug",
		"/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware",
	}
	defaultReadOnly = [...]string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// container gives the container whose first process is the init with the words
// given.
func (p *planner) container(words []string) (*plan, error) {
	out := &plan{
		config: container.Config{
			Image:      p.image.id,
			Entrypoint: append([]string{initInside}, words...),
			User:       p.user(),
			WorkingDir: "/",
			Hostname:   "localhost",
			// The image's own would run commands of its choice beside ours.
			Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
			Labels:      p.labels,
		},
		host: container.HostConfig{
			AutoRemove:     true,
			NetworkMode:    p.networkMode(),
			LogConfig:      container.LogConfig{Type: "none"},
			RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
			CapDrop:        []string{"ALL"},
			CapAdd:         slices.Clone(p.options.CapAdd),
			SecurityOpt:    []string{"no-new-privileges"},
			ReadonlyRootfs: !p.options.WritableRoot,
			IpcMode:        container.IPCModePrivate,
			CgroupnsMode:   container.CgroupnsModePrivate,
			ShmSize:        int64(p.tempSize()),
			Init:           new(bool),
			Resources:      resources(p.limits, &p.daemon),
			Tmpfs:          map[string]string{},
			ReadonlyPaths:  defaultReadOnly[:],
		},
	}
	if p.daemon.remapped {
		// Else the caller's number would be somebody else's on the host.
		out.host.UsernsMode = "host"
	}
	if u := p.spec.User; u != nil && !p.daemon.rootless {
		for _, g := range u.Groups {
			out.host.GroupAdd = append(out.host.GroupAdd, strconv.FormatUint(uint64(g), 10))
		}
	}
	if err := p.mounts(out); err != nil || !p.daemon.podman {
		return out, err
	}
	return out, out.forPodman()
}

// user is who the init, and so the command, runs as inside.
func (p *planner) user() string {
	switch {
	case p.options.User != "":
		return p.options.User
	case p.daemon.rootless:
		return "0:0" // which is the caller on the host
	}
	u := p.runAs()
	return fmt.Sprintf("%d:%d", u.UID, u.GID)
}

func (p *planner) runAs() shared.User {
	if p.spec.User != nil {
		return *p.spec.User
	}
	return p.self
}

func (p *planner) networkMode() container.NetworkMode {
	switch {
	case p.spec.Network.Mode != shared.NetworkHost:
		return "none" // with a list of names, all goes by sockets that the init makes
	case p.network != "":
		return container.NetworkMode(p.network)
	}
	return "bridge"
}

func (p *planner) tempSize() uint64 {
	switch {
	case p.limits.TempSize > 0:
		return p.limits.TempSize
	case p.memory > 0:
		return max(min(p.memory/4, tempSizeMax), tempSizeMin)
	}
	return tempSizeMin
}

func resources(l shared.Limits, d *daemonFacts) container.Resources {
	var r container.Resources
	if d.limitsPIDs {
		pids := int64(defaultPIDs)
		if l.PIDs > 0 {
			pids = int64(min(l.PIDs, math.MaxInt32)) + initThreads
		}
		r.PidsLimit = &pids
	}
	if l.Memory > 0 {
		// Swap counts in: a limit that moves the excess to the disk is none.
		r.Memory, r.MemorySwap = int64(min(l.Memory, math.MaxInt64)), int64(min(l.Memory, math.MaxInt64))
	}
	if cpus := l.CPUs; cpus > 0 {
		if d.cpus > 0 {
			// The daemon refuses more than there are, which nothing can use anyway.
			cpus = min(cpus, float64(d.cpus))
		}
		r.NanoCPUs = int64(math.Round(cpus * 1e9))
	}
	return r
}

// mounts adds the Spec's table, the engine's own entries and the private directories.
func (p *planner) mounts(out *plan) error {
	table := slices.Concat(p.spec.Table, p.binds)
	taken := destinations{}
	if err := p.tableMounts(out, table, taken); err != nil {
		return err
	}
	if err := p.cacheMounts(out, taken); err != nil {
		return err
	}
	if err := p.privateDirs(out, taken); err != nil {
		return err
	}
	p.bind(out, shared.Entry{Source: p.initFile, Path: initInside, Why: "the init", Access: shared.ReadOnly}, true)
	if p.lineDir != "" {
		p.bind(out, shared.Entry{Source: p.lineDir, Path: lineInside, Why: "the init's connection", Access: shared.ReadOnly}, true)
	}
	if err := p.hide(out, table, taken); err != nil {
		return err
	}
	slices.SortStableFunc(out.ops, func(a, b shared.PlannedMount) int { return paths.Compare(a.Destination, b.Destination) })
	return nil
}

// destinations are the paths inside that something is mounted on.
type destinations map[string]bool

// take notes the destination of an entry, and refuses what cannot be one.
func (d destinations) take(m shared.Entry) error {
	if err := refuseReserved(m); err != nil {
		return err
	}
	if err := nameable(m.Why, m.Source, m.Path); err != nil {
		return err
	}
	if d[m.Path] {
		return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: m.Why, Message: fmt.Sprintf("destination %q is another mount's already", m.Path)}
	}
	d[m.Path] = true
	return nil
}

func (p *planner) tableMounts(out *plan, table []shared.Entry, taken destinations) error {
	for _, m := range table {
		if m.Access == shared.Hidden {
			continue
		}
		if err := taken.take(m); err != nil {
			return err
		}
		switch m.Access {
		case shared.Private:
			p.tmpfs(out, m.Path, 0o755, p.tempSize(), m.Why)
		case shared.ReadWrite:
			p.bind(out, m, false)
		case shared.Overlay:
			if !m.Degradable {
				return &shared.Error{Kind: shared.ErrUnsupported, Attribute: m.Why, Message: "engine docker has no overlays"}
			}
			p.bind(out, m, true)
		default:
			p.bind(out, m, true)
		}
	}
	return nil
}

func (p *planner) cacheMounts(out *plan, taken destinations) error {
	for _, c := range p.caches {
		if err := taken.take(shared.Entry{Path: c.inside, Why: c.origin, Access: shared.ReadOnly}); err != nil {
			return err
		}
		out.host.Mounts = append(out.host.Mounts, c.mount())
		out.ops = append(out.ops, shared.PlannedMount{Op: "volume", Source: c.name, Destination: c.inside, Why: c.origin})
	}
	return nil
}

// privateDirs adds the directories of memory, where the table has nothing else.
func (p *planner) privateDirs(out *plan, taken destinations) error {
	private := func(dest string, mode uint32, why string) {
		if dest != "" && !taken[dest] {
			taken[dest] = true
			p.tmpfs(out, dest, mode, p.tempSize(), why)
		}
	}
	if err := nameable("home", p.spec.Home); err != nil {
		return err
	}
	// In the place of the host's devices and of the kernel's settings. The runtime
	// puts the container's own control group there.
	out.host.Tmpfs["/sys"] = "ro,noexec,nosuid,nodev,size=64k,mode=0555"
	out.ops = append(out.ops, shared.PlannedMount{Op: "tmpfs", Destination: "/sys", Why: "the engine"})
	private("/tmp", 0o1777, "filesystem")
	private("/var/tmp", 0o1777, "filesystem")
	private(p.spec.Home, 0o700, "home")
	for _, v := range p.image.volumes {
		v = path.Clean("/" + v)
		if err := refuseReserved(shared.Entry{Path: v, Why: "config.image", Access: shared.ReadOnly}); err != nil {
			return err
		}
		private(v, 0o755, "volume of the image")
	}
	return nil
}

func (p *planner) bind(out *plan, m shared.Entry, readOnly bool) {
	b := mount.Mount{
		Type: mount.TypeBind, Source: m.Source, Target: m.Path, ReadOnly: readOnly,
		BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate},
	}
	op := "bind"
	if readOnly {
		op = "ro-bind"
		if p.daemon.recursiveRO {
			b.BindOptions.ReadOnlyForceRecursive = true
		} else {
			// Read-only is then of the top alone: what is mounted below would
			// stay writable.
			b.BindOptions.NonRecursive = true
		}
	}
	out.host.Mounts = append(out.host.Mounts, b)
	out.ops = append(out.ops, shared.PlannedMount{Op: op, Source: m.Source, Destination: m.Path, Why: m.Why})
}

func (p *planner) tmpfs(out *plan, dest string, mode uint32, size uint64, why string) {
	u := p.runAs()
	if p.daemon.rootless {
		u = shared.User{}
	}
	owner := fmt.Sprintf("uid=%d,gid=%d", u.UID, u.GID)
	if p.daemon.podman {
		owner = podmanTmpfs
	}
	out.host.Tmpfs[dest] = fmt.Sprintf("rw,exec,nosuid,nodev,size=%d,mode=%04o,%s", size, mode, owner)
	out.ops = append(out.ops, shared.PlannedMount{Op: "tmpfs", Destination: dest, Why: why})
}

// hide hides paths: the daemon's runtime does it last, and leaves alone what is
// not there, so that nothing is made on the host to be mounted on. A directory in
// which something is mounted becomes empty memory beneath that.
func (p *planner) hide(out *plan, table []shared.Entry, mounted map[string]bool) error {
	holds := map[string]bool{}
	for at := range mounted {
		for dir := range paths.Up(path.Dir(at)) {
			holds[dir] = true
		}
	}
	var masked []string
	cover := shared.Covers(table)
	for _, m := range table {
		if m.Access != shared.Hidden {
			continue
		}
		for _, dir := range [...]string{"/proc", "/dev", ownDir} {
			if paths.Inside(dir, m.Path) || m.Path == "/" {
				return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: m.Why, Message: fmt.Sprintf("cannot hide %q, which the engine needs", m.Path)}
			}
		}
		if err := nameable(m.Why, m.Path); err != nil {
			return err
		}
		if holds[m.Path] {
			out.host.Tmpfs[m.Path] = "ro,noexec,nosuid,nodev,size=64k,mode=0755"
			if p.daemon.podman {
				out.host.Tmpfs[m.Path] += ",notmpcopyup"
			}
			out.ops = append(out.ops, shared.PlannedMount{Op: "tmpfs", Destination: m.Path, Why: m.Why})
			continue
		}
		if _, dir := cover(path.Dir(m.Path)); dir != "" {
			out.hidden = append(out.hidden, path.Join(dir, path.Base(m.Path)))
			out.masked = append(out.masked, m.Path)
		}
		masked = append(masked, m.Path)
		out.ops = append(out.ops, shared.PlannedMount{Op: "mask", Destination: m.Path, Why: m.Why})
	}
	slices.Sort(masked)
	out.host.MaskedPaths = slices.Concat(defaultMasked[:], masked)
	return nil
}

// nameable refuses paths that are not UTF-8. The daemon is spoken to in JSON,
// which would have it mount, or hide, another path.
func nameable(origin string, paths ...string) error {
	for _, path := range paths {
		if !utf8.ValidString(path) {
			return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: origin,
				Message: fmt.Sprintf("%q is not UTF-8, and the Docker daemon takes no other names", path), Hint: "rename it, or use engine bwrap"}
		}
	}
	return nil
}

func refuseReserved(m shared.Entry) error {
	for _, dir := range [...]string{"/proc", "/dev", "/sys", ownDir} {
		if paths.Inside(dir, m.Path) {
			return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: m.Why,
				Message: fmt.Sprintf("destination %q lies in %s, which the engine provides", m.Path, dir)}
		}
	}
	if m.Path == "/" {
		return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: m.Why, Message: `destination "/" would replace the whole image`}
	}
	return nil
}
