package serve

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
	"github.com/sbxhost/sbxhost/internal/wire"
)

// Identity is what the kernel knows about a process and what a command that the process starts
// would inherit.
type Identity struct {
	links    map[string]string
	files    map[string]string
	status   []string
	schedule []string
}

// The namespaces, the root, the cgroup, the limits, the security label, and the inherited lines of
// the status. A process that is confined in another way cannot have confined itself without
// no_new_privs, unless it runs as root.
var (
	identityLinks  = []string{"ns/cgroup", "ns/ipc", "ns/mnt", "ns/net", "ns/pid", "ns/pid_for_children", "ns/time", "ns/user", "ns/uts", "root"}
	identityFiles  = []string{"attr/current", "cgroup", "limits", "loginuid", "oom_score_adj", "personality"}
	identityStatus = []string{"CapAmb", "CapBnd", "CapEff", "CapInh", "CapPrm", "Cpus_allowed", "Gid", "Groups", "Mems_allowed", "NoNewPrivs", "Seccomp", "Seccomp_filters", "Uid", "Umask"}
)

// ThisProcess is the identity of this process.
func ThisProcess() (Identity, error) { return identityOf("/proc/self") }

func identityOf(dir string) (Identity, error) {
	id := Identity{links: map[string]string{}, files: map[string]string{}}
	for _, name := range identityLinks {
		target, err := os.Readlink(dir + "/" + name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return id, err
		}
		id.links[name] = target
	}
	var root unix.Stat_t // two roots can have one name
	if err := unix.Stat(dir+"/root/.", &root); err != nil {
		return id, err
	}
	id.links["root"] = fmt.Sprintf("%s %x:%d", id.links["root"], root.Dev, root.Ino)
	for _, name := range identityFiles {
		text, err := os.ReadFile(dir + "/" + name)
		// A kernel without the label's module has the file, and answers EINVAL.
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.EINVAL) {
			return id, err
		}
		id.files[name] = string(text)
	}
	text, err := os.ReadFile(dir + "/status")
	if err != nil {
		return id, err
	}
	for line := range strings.Lines(string(text)) {
		if name, _, _ := strings.Cut(line, ":"); slices.Contains(identityStatus, name) {
			id.status = append(id.status, line)
		}
	}
	text, err = os.ReadFile(dir + "/stat")
	if err != nil {
		return id, err
	}
	const nice, priority, policy = 19, 40, 41
	for _, field := range []int{nice, priority, policy} {
		id.schedule = append(id.schedule, proc.StatField(string(text), field))
	}
	if slices.Contains(id.schedule, "") {
		return id, errors.New("stat is cut short")
	}
	return id, nil
}

// What may differ between clients that share a session's processes: how much a client may use, and
// the modes of its new files. The session's processes have limits of their own.
var (
	usageFiles  = []string{"cgroup", "limits", "oom_score_adj"}
	usageStatus = []string{"Cpus_allowed", "Mems_allowed", "Umask"}
)

// fixed is the part of an identity that a server cannot give to a command.
func (id Identity) fixed() Identity {
	id.files, id.schedule = maps.Clone(id.files), id.schedule[1:]
	delete(id.files, "limits")
	delete(id.files, "oom_score_adj")
	id.status = slices.DeleteFunc(slices.Clone(id.status), func(line string) bool {
		return strings.HasPrefix(line, "Umask:") || strings.HasPrefix(line, "Cpus_allowed:")
	})
	return id
}

// confinement is the part of an identity that says what a process may reach.
func (id Identity) confinement() Identity {
	id.files, id.schedule = maps.Clone(id.files), nil
	for _, name := range usageFiles {
		delete(id.files, name)
	}
	id.status = slices.DeleteFunc(slices.Clone(id.status), func(line string) bool {
		name, _, _ := strings.Cut(line, ":")
		return slices.Contains(usageStatus, name)
	})
	return id
}

// Differs names the differences of two identities; it is empty if there are none.
func (id Identity) Differs(other Identity) string {
	for _, name := range identityLinks {
		if id.links[name] != other.links[name] {
			return name
		}
	}
	for _, name := range identityFiles {
		if id.files[name] != other.files[name] {
			return name
		}
	}
	for i, line := range id.status {
		if i >= len(other.status) || line != other.status[i] {
			name, _, _ := strings.Cut(line, ":")
			return "status " + name
		}
	}
	if !slices.Equal(id.schedule, other.schedule) {
		return "scheduling"
	}
	return ""
}

// procOf returns the directory in /proc of the process that has connected to a socket, or listens
// there, if the process belongs to this user and pid namespace.
func procOf(socket int) (string, error) {
	cred, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return "", os.NewSyscallError("SO_PEERCRED", err)
	}
	if int(cred.Uid) != os.Geteuid() || cred.Pid <= 0 {
		return "", errors.New("another user, or from another pid namespace")
	}
	return "/proc/" + strconv.Itoa(int(cred.Pid)), nil
}

var errNoNewPrivs = errors.New("no_new_privs is set, so that it may be confined in a way that nobody sees")

// A Peer is a process that has connected to a server.
type Peer struct {
	// Usage is how much the peer may use, if a server can give that to a command.
	Usage *wire.Usage
	// Confined says why the server runs no command for the peer: the peer would escape its
	// confinement. Apart says why the server runs only commands that share a session's processes.
	Confined, Apart error
}

// Look looks at a process that has connected to a socket of a process with the identity own. It
// refuses a process of another user, or in another user or pid namespace, as commands in sandboxes
// are.
func Look(socket int, own Identity) (p Peer, err error) {
	proc, err := procOf(socket)
	if err != nil {
		return p, err
	}
	pidfd, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if err != nil {
		return p, os.NewSyscallError("SO_PEERPIDFD", err) // before Linux 6.5
	}
	defer unix.Close(pidfd)
	peer, err := identityOf(proc)
	if err != nil {
		return p, err
	}
	// If the process is still alive, the number was its own during the read.
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0); n != 0 || err != nil {
		return p, errors.New("it has ended")
	}
	for _, name := range []string{"ns/user", "ns/pid"} {
		if own.links[name] != peer.links[name] {
			return p, fmt.Errorf("its %s differs", name)
		}
	}
	// It may be confined by Landlock, which nobody sees from outside.
	private := !slices.ContainsFunc(peer.status, func(line string) bool {
		return strings.HasPrefix(line, "NoNewPrivs:") && strings.TrimSpace(line[len("NoNewPrivs:"):]) == "0"
	})
	if what := own.confinement().Differs(peer.confinement()); what == "status NoNewPrivs" && private {
		p.Confined = errNoNewPrivs
	} else if what != "" {
		p.Confined = fmt.Errorf("its %s differs", what)
	}
	what := own.fixed().Differs(peer.fixed())
	if what == "" {
		what = own.cannotGive(peer)
	}
	switch {
	case p.Confined != nil:
		p.Apart = p.Confined
	case private:
		p.Apart = errNoNewPrivs
	case what != "":
		p.Apart = fmt.Errorf("its %s differs", what)
	default:
		usage, err := peer.Usage()
		return Peer{Usage: &usage}, err
	}
	return p, nil
}

// Genuine refuses a server that does not run as this user in the namespaces of this process, or
// that is not program. An empty program is for a caller that gives the server nothing.
func Genuine(socket int, program string) error {
	proc, err := procOf(socket)
	if err != nil {
		return err
	}
	spaces := []string{"ns/user", "ns/pid", "ns/mnt"}
	if program == "" {
		spaces = spaces[:2]
	}
	for _, name := range spaces {
		own, err := os.Readlink("/proc/self/" + name)
		if err != nil {
			return err
		}
		if its, err := os.Readlink(proc + "/" + name); err != nil || its != own {
			return fmt.Errorf("its %s differs", name)
		}
	}
	if program == "" {
		return nil
	}
	want, err := StampOf(program)
	if err != nil {
		return err
	}
	if its, err := StampOf(proc + "/exe"); err != nil || its != want {
		return errors.New("it runs another program")
	}
	return nil
}
