package serve

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/proc"
	"github.com/sbxhost/sbxhost/internal/wire"
)

// Identity is what the kernel knows about a process and what a command that the process starts
// would inherit, by names: of files and links in the process's directory of /proc, "status Umask" and
// the like, "nice" and "scheduling".
type Identity map[string]string

// The namespaces, the root, the cgroup, the limits, the security label, and the inherited lines of
// the status. A process that is confined in another way cannot have confined itself without
// no_new_privs, unless it runs as root.
var (
	identityLinks  = []string{"ns/cgroup", "ns/ipc", "ns/mnt", "ns/net", "ns/pid", "ns/pid_for_children", "ns/time", "ns/user", "ns/uts", "root"}
	identityFiles  = []string{"attr/current", "cgroup", "loginuid", "oom_score_adj", "personality"}
	identityStatus = []string{"CapAmb", "CapBnd", "CapEff", "CapInh", "CapPrm", "Cpus_allowed", "Gid", "Groups", "Mems_allowed", "NoNewPrivs", "Seccomp", "Seccomp_filters", "Uid", "Umask"}
)

// givable are the names that a server can give to a command: see cannotGive.
var givable = []string{"nice", "oom_score_adj", "status Cpus_allowed", "status Umask"}

// usageNames are the names that may differ between clients that share a session's processes: how much a client
// may use, and the modes of its new files. The session's processes have limits of their own.
var usageNames = append([]string{"cgroup", "scheduling", "status Mems_allowed"}, givable...)

// ThisProcess is the identity of this process.
func ThisProcess() (Identity, error) { return identityOf("/proc/self") }

func identityOf(dir string) (Identity, error) {
	id := Identity{}
	for _, name := range identityLinks {
		target, err := os.Readlink(dir + "/" + name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		id[name] = target
	}
	var root unix.Stat_t // two roots can have one name
	if err := unix.Stat(dir+"/root/.", &root); err != nil {
		return nil, err
	}
	id["root"] += fmt.Sprintf(" %x:%d", root.Dev, root.Ino)
	for _, name := range identityFiles {
		text, err := os.ReadFile(dir + "/" + name)
		// A kernel without the label's module has the file, and answers EINVAL.
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.EINVAL) {
			return nil, err
		}
		id[name] = strings.TrimSpace(string(text))
	}
	status, statusErr := os.ReadFile(dir + "/status")
	stat, statErr := os.ReadFile(dir + "/stat")
	if err := errors.Join(statusErr, statErr); err != nil {
		return nil, err
	}
	for _, name := range identityStatus {
		id["status "+name] = proc.StatusField(string(status), name)
	}
	const nice, priority, policy = 19, 40, 41
	id["nice"] = proc.StatField(string(stat), nice)
	id["scheduling"] = proc.StatField(string(stat), priority) + " " + proc.StatField(string(stat), policy)
	const process, none, bestEffort = 1, 0, 2  // of IOPRIO_WHO and IOPRIO_CLASS
	pid, _ := strconv.Atoi(filepath.Base(dir)) // 0 is this one
	disk, _, _ := unix.Syscall(unix.SYS_IOPRIO_GET, process, uintptr(pid), 0)
	class := disk >> 13 // the rest may follow from nice
	if class == none {
		class = bestEffort // some kernels say the one, some the other, of a process that has set none
	}
	id["scheduling"] += " " + strconv.Itoa(int(class))
	return id, nil
}

// Differs returns the first name that differs between two identities, apart from some; "" for none.
func (id Identity) Differs(other Identity, except ...string) (first string) {
	for name := range id {
		if id[name] != other[name] && (first == "" || name < first) && !slices.Contains(except, name) {
			first = name
		}
	}
	return first
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
// are. Only a [Challenge] shows whether Landlock confines it more.
func Look(socket int, own Identity) (p Peer, err error) {
	dir, err := procOf(socket)
	if err != nil {
		return p, err
	}
	pidfd, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if err != nil {
		return p, os.NewSyscallError("SO_PEERPIDFD", err) // before Linux 6.5
	}
	defer unix.Close(pidfd)
	peer, err := identityOf(dir)
	if err != nil {
		return p, err
	}
	usage, unknown := peer.usage(dir)
	// If the process is still alive, the number was its own during the read.
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0); n != 0 || err != nil {
		return p, errors.New("it has ended")
	}
	for _, name := range []string{"ns/user", "ns/pid"} {
		if own[name] != peer[name] {
			return p, fmt.Errorf("its %s differs", name)
		}
	}
	// It may be confined by Landlock: see Challenge.
	private := peer["status NoNewPrivs"] != "0"
	if what := own.Differs(peer, usageNames...); what == "status NoNewPrivs" && private {
		p.Confined = errNoNewPrivs
	} else if what != "" {
		p.Confined = fmt.Errorf("its %s differs", what)
	} else if proc.HasPrivateFilter(peer["status NoNewPrivs"], peer["status Seccomp_filters"]) {
		p.Confined = errors.New("its filter of system calls may differ")
	}
	what := cmp.Or(own.Differs(peer, givable...), own.cannotGive(&usage))
	switch {
	case p.Confined != nil:
		p.Apart = p.Confined
	case private:
		p.Apart = errNoNewPrivs
	case unknown != nil:
		p.Apart = unknown
	case what != "":
		p.Apart = fmt.Errorf("its %s differs", what)
	default:
		usage.Limits = slices.Delete(usage.Limits, unix.RLIMIT_NOFILE, unix.RLIMIT_NOFILE+1)
		p.Usage = &usage
	}
	return p, nil
}

// Genuine refuses a server that does not run as this user in the namespaces of this process, or
// that is not program. An empty program is for a caller that gives the server nothing. The error is
// ErrAbsent for a process at its end: its socket lasts longer than its namespaces and its program.
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
		its, err := os.Readlink(proc + "/" + name)
		if errors.Is(err, os.ErrNotExist) {
			return ErrAbsent
		}
		if err != nil || its != own {
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
	its, err := StampOf(proc + "/exe")
	if errors.Is(err, os.ErrNotExist) {
		return ErrAbsent
	}
	if err != nil || its != want {
		other, _ := os.Readlink(proc + "/exe")
		return fmt.Errorf("%w: process %s runs %s", ErrOther, strings.TrimPrefix(proc, "/proc/"), hostpath.Quote(other))
	}
	return nil
}
