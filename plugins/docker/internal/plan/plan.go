// Package plan makes the request for a container from a Spec, the options and facts about daemon
// and image. It asks no daemon. It reads only the host's paths.
package plan

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/sbxhost/sbxhost/internal/engine/mountplan"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/daemon"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/definition"
	"github.com/sbxhost/sbxhost/shared"
)

// Paths inside that are the engine's own.
const (
	OwnDir     = "/.sbxhost"
	InitInside = OwnDir + "/init"
	LineInside = OwnDir + "/line"
	SocketName = "s"
)

const (
	// defaultPIDs bounds a container whose definition sets no limit: a fork bomb must not stop the
	// machine.
	defaultPIDs = 4096
	// InitThreads is what the limit of processes leaves for the init, which the daemon counts too:
	// the threads of a small Go program.
	InitThreads = 16
)

// Image are the facts about an image for a plan.
type Image struct {
	ID      string
	Volumes []string
	Path    string // PATH of its configuration
}

// Planner is the input for containers.
type Planner struct {
	Spec    *shared.Spec
	Options *definition.Options
	Limits  shared.Limits // the Spec's that can be enforced
	Image   Image
	Daemon  daemon.Facts
	Memory  uint64 // of the machine, in bytes
	Self    shared.User
	// InitFile and LineDir are the engine's own binds, on the host.
	InitFile, LineDir string // LineDir may be empty
	Labels            map[string]string
}

// Plan is the request for a container.
type Plan struct {
	Config container.Config
	Host   container.HostConfig
	Ops    []shared.PlannedMount
}

// show adds a mount to those that people see.
func (out *Plan) show(op, source, dest, why string) {
	out.Ops = append(out.Ops, shared.PlannedMount{Op: op, Source: source, Destination: dest, Why: why})
}

// defaultMasked and defaultReadOnly are what Docker hides and protects in every container: our own
// lists would otherwise replace its own.
var (
	defaultMasked = [...]string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug",
		"/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware",
	}
	defaultReadOnly = [...]string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// Container plans the container whose first process is the init with these words. The Spec's table
// is from Checked.
func (p *Planner) Container(words []string) (*Plan, error) {
	out := &Plan{
		Config: container.Config{
			Image:      p.Image.ID,
			Entrypoint: append([]string{InitInside}, words...),
			User:       p.user(),
			WorkingDir: "/",
			Hostname:   "localhost",
			// The image's own would run its commands beside ours.
			Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
			Labels:      p.Labels,
		},
		Host: container.HostConfig{
			AutoRemove:     true,
			NetworkMode:    p.networkMode(),
			LogConfig:      container.LogConfig{Type: "none"},
			RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
			CapDrop:        []string{"ALL"},
			CapAdd:         slices.Clone(p.Options.CapAdd),
			SecurityOpt:    []string{"no-new-privileges"},
			ReadonlyRootfs: !p.Options.WritableRoot,
			IpcMode:        container.IPCModePrivate,
			CgroupnsMode:   container.CgroupnsModePrivate,
			ShmSize:        int64(mountplan.TempSize(p.Memory, &p.Limits)),
			Init:           new(bool),
			Resources:      resources(p.Limits, &p.Daemon),
			Tmpfs:          map[string]string{},
			ReadonlyPaths:  defaultReadOnly[:],
		},
	}
	if p.Daemon.Remapped {
		// Else the caller's number would be another user's on the host.
		out.Host.UsernsMode = "host"
	}
	if u := p.Spec.User; u != nil && !p.Daemon.Rootless {
		for _, g := range u.Groups {
			out.Host.GroupAdd = append(out.Host.GroupAdd, strconv.FormatUint(uint64(g), 10))
		}
	}
	for _, device := range p.Spec.Devices {
		out.Host.Devices = append(out.Host.Devices, container.DeviceMapping{PathOnHost: device, PathInContainer: device, CgroupPermissions: "rw"})
	}
	return out, p.mounts(out)
}

// user is the user of the init, and so of the command, inside.
func (p *Planner) user() string {
	switch {
	case p.Options.User != "":
		return p.Options.User
	case p.Daemon.Rootless:
		return "0:0" // the caller on the host
	}
	u := p.RunAs()
	return fmt.Sprintf("%d:%d", u.UID, u.GID)
}

// RunAs is the user of the host that commands run as.
func (p *Planner) RunAs() shared.User {
	if p.Spec.User != nil {
		return *p.Spec.User
	}
	return p.Self
}

func (p *Planner) networkMode() container.NetworkMode {
	if p.Spec.Network.Mode == shared.NetworkHost {
		return "bridge"
	}
	return "none" // with a list of names, the init makes sockets for all connections
}

func resources(l shared.Limits, d *daemon.Facts) container.Resources {
	var r container.Resources
	if d.Limits["pids"] {
		pids := int64(defaultPIDs)
		if l.PIDs > 0 {
			pids = int64(min(l.PIDs, math.MaxInt32)) + InitThreads
		}
		r.PidsLimit = &pids
	}
	if l.Memory > 0 {
		// With swap: a limit that moves the rest to the disk is no limit.
		r.Memory, r.MemorySwap = int64(min(l.Memory, math.MaxInt64)), int64(min(l.Memory, math.MaxInt64))
	}
	if cpus := l.CPUs; cpus > 0 {
		if d.CPUs > 0 {
			// The daemon refuses more processors than exist.
			cpus = min(cpus, float64(d.CPUs))
		}
		r.NanoCPUs = int64(math.Round(cpus * 1e9))
	}
	return r
}

// mounts adds the Spec's table, the engine's own entries and the private directories.
func (p *Planner) mounts(out *Plan) error {
	taken := map[string]bool{} // the mount points inside
	if err := p.tableMounts(out, taken); err != nil {
		return err
	}
	if err := p.privateDirs(out, taken); err != nil {
		return err
	}
	p.bind(out, shared.Entry{Source: p.InitFile, Path: InitInside, Why: "the init", Access: shared.ReadOnly}, true)
	if p.LineDir != "" {
		p.bind(out, shared.Entry{Source: p.LineDir, Path: LineInside, Why: "the init's connection", Access: shared.ReadOnly}, true)
	}
	p.hide(out, taken)
	slices.SortStableFunc(out.Ops, func(a, b shared.PlannedMount) int { return paths.Compare(a.Destination, b.Destination) })
	return nil
}

func (p *Planner) tableMounts(out *Plan, taken map[string]bool) error {
	for _, m := range p.Spec.Table {
		if err := refuseReserved(m); err != nil {
			return err
		}
		if m.Access == shared.Hidden { // see hide
			continue
		}
		taken[m.Path] = true
		switch {
		case m.Access == shared.Private:
			p.tmpfs(out, m.Path, 0o755, m.Why)
		case m.Access == shared.Overlay && !m.Degradable:
			return &shared.Error{Kind: shared.ErrUnsupported, Attribute: m.Why, Message: "engine docker has no overlays"}
		default:
			p.bind(out, m, m.Access != shared.ReadWrite)
		}
	}
	return nil
}

// privateDirs adds the directories of memory, unless the table has something there.
func (p *Planner) privateDirs(out *Plan, taken map[string]bool) error {
	private := func(dest string, mode uint32, why string) {
		if dest != "" && !taken[dest] {
			taken[dest] = true
			p.tmpfs(out, dest, mode, why)
		}
	}
	// In place of the host's devices and the kernel's settings. The runtime puts the container's
	// own control group there.
	out.Host.Tmpfs["/sys"] = "ro,noexec,nosuid,nodev,size=64k,mode=0555"
	out.show("tmpfs", "", "/sys", "the engine")
	private("/tmp", 0o1777, "filesystem")
	private("/var/tmp", 0o1777, "filesystem")
	private(p.Spec.Home, 0o700, "home")
	for _, v := range p.Image.Volumes {
		v = path.Clean("/" + v)
		if err := refuseReserved(shared.Entry{Path: v, Why: "config.image", Access: shared.ReadOnly}); err != nil {
			return err
		}
		private(v, 0o755, "volume of the image")
	}
	return nil
}

func (p *Planner) bind(out *Plan, m shared.Entry, readOnly bool) {
	b := mount.Mount{
		Type: mount.TypeBind, Source: m.Source, Target: m.Path, ReadOnly: readOnly,
		BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate},
	}
	op := "bind"
	if readOnly {
		op = "ro-bind"
		if p.Daemon.RecursiveRO {
			b.BindOptions.ReadOnlyForceRecursive = true
		} else {
			// Then only the top is read-only: mounts below it would stay writable.
			b.BindOptions.NonRecursive = true
		}
	}
	out.Host.Mounts = append(out.Host.Mounts, b)
	out.show(op, m.Source, m.Path, m.Why)
}

func (p *Planner) tmpfs(out *Plan, dest string, mode uint32, why string) {
	u, size := p.RunAs(), mountplan.TempSize(p.Memory, &p.Limits)
	if p.Daemon.Rootless {
		u = shared.User{}
	}
	out.Host.Tmpfs[dest] = fmt.Sprintf("rw,exec,nosuid,nodev,size=%d,mode=%04o,uid=%d,gid=%d", size, mode, u.UID, u.GID)
	out.show("tmpfs", "", dest, why)
}

// hide hides paths: the daemon's runtime does it last, and skips missing paths, so that it makes no
// mount points on the host. A directory with mounts in it becomes empty memory beneath them.
func (p *Planner) hide(out *Plan, mounted map[string]bool) {
	holds := map[string]bool{}
	for at := range mounted {
		for dir := range paths.Up(path.Dir(at)) {
			holds[dir] = true
		}
	}
	var masked []string
	for _, m := range p.Spec.Table {
		if m.Access != shared.Hidden {
			continue
		}
		if holds[m.Path] {
			out.Host.Tmpfs[m.Path] = "ro,noexec,nosuid,nodev,size=64k,mode=0755"
			out.show("tmpfs", "", m.Path, m.Why)
			continue
		}
		masked = append(masked, m.Path)
		out.show("mask", "", m.Path, m.Why)
	}
	slices.Sort(masked)
	out.Host.MaskedPaths = slices.Concat(defaultMasked[:], masked)
}

// refuseReserved refuses an entry in what the engine provides, or above it.
func refuseReserved(m shared.Entry) error {
	for _, dir := range [...]string{"/proc", "/dev", "/sys", OwnDir} {
		empty := dir == "/sys" && m.Access == shared.Hidden // so that a rule for several engines works
		if paths.Inside(dir, m.Path) && !empty || m.Path == "/" {
			return mountplan.Invalid(m.Why, "", "nothing can be mounted or hidden at %q, because the engine provides %s", m.Path, dir)
		}
	}
	return nil
}
