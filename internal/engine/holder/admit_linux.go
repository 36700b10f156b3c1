package holder

import (
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// A caller is how a client is confined, by names, as far as commands that the holder starts would
// not be: they have namespaces of their own except, perhaps, a network namespace. The holder is in
// another user namespace, so that it cannot read the links in the client's directory of /proc.
type caller map[string]string

var callerStatus = []string{"CapAmb", "CapBnd", "CapEff", "CapInh", "CapPrm", "Gid", "Groups", noNewPrivs, "Seccomp", seccompFilters, "Uid"}

const (
	noNewPrivs     = "NoNewPrivs"
	seccompFilters = "Seccomp_filters"
	ofStatus       = "status "
	ownStatus      = "/proc/self/status"
)

func procPath(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// peerOf returns the process that made the other end of a socket, and the cookie of its network
// namespace. It refuses commands: their view can have the socket, where a read-only mount does not
// prevent connections, but they are in a pid namespace of their own.
func peerOf(socket int) (pid int, network string, err error) {
	cred, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, "", os.NewSyscallError("SO_PEERCRED", err)
	}
	status, err := os.ReadFile(procPath(int(cred.Pid), "status"))
	if err != nil || nested(string(status)) {
		return 0, "", errors.Join(errors.New("a process of another pid namespace"), err)
	}
	cookie, err := unix.GetsockoptUint64(socket, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil && err != unix.ENOPROTOOPT { // before Linux 5.14
		return 0, "", os.NewSyscallError("SO_NETNS_COOKIE", err)
	}
	return int(cred.Pid), strconv.FormatUint(cookie, 10), nil
}

// nested reports whether a process, by its status in /proc, is in a pid namespace below that of
// this /proc. Without an answer it is.
func nested(status string) bool {
	return len(strings.Fields(proc.StatusField(status, "NSpid"))) != 1
}

// look looks at a process of [peerOf]. Its status was opened outside the holder's user namespace, in
// which other groups have no number.
func look(pid int, network string, status int) (caller, error) {
	file := os.NewFile(uintptr(status), "status")
	defer file.Close()
	opened, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if its, err := os.Stat(procPath(pid, "status")); err != nil || !os.SameFile(its, opened) {
		return nil, errors.New("the status is another process's")
	}
	mounts, err := os.ReadFile(procPath(pid, "mountinfo"))
	if err != nil {
		return nil, err
	}
	// Without options: mounts in two mount namespaces have two numbers.
	first, _, _ := strings.Cut(string(mounts), "\n")
	fields := strings.Fields(first)
	label, err := os.ReadFile(procPath(pid, "attr/current"))
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		label = []byte(failed.Err.Error()) // without a module
	}
	// Last of all: the kernel answers only if the process is still alive, so that the number was its
	// own.
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	c := caller{"mount namespace or root directory": strings.Join(fields[:min(5, len(fields))], " "), "security label": string(label), "network namespace": network}
	for _, name := range callerStatus {
		c[ofStatus+name] = proc.StatusField(string(text), name)
	}
	return c, nil
}

// differs names what differs between two callers; "" if they are confined alike.
func (c caller) differs(other caller) string {
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if c[name] != other[name] {
			return name
		}
	}
	if proc.HasPrivateFilter(c[ofStatus+noNewPrivs], c[ofStatus+seccompFilters]) {
		return "filter of system calls may"
	}
	return ""
}

// joinPatience is how long a client may take to prove itself, with a message of maxProof bytes.
const (
	joinPatience = 10 * time.Second
	maxProof     = 1 << 10
)

// join admits a client that is confined like the holder's starter. Its later requests come over
// connections that it sends, and which nobody else can make.
func (s *server) join(conn *frame.Conn, pid int, network string) {
	if s.orphan { // about to end: the client then starts another holder
		conn.Close()
		conn.Discard()
		return
	}
	late := time.AfterFunc(joinPatience, func() { conn.Close() })
	err := s.check(conn, pid, network)
	if late.Stop() && err == nil {
		s.admit(conn)
		return
	}
	if err != nil {
		conn.Write(msgFailed, &MountError{Index: -1, Call: CallJoin, Reason: err.Error()})
	}
	conn.Close()
	conn.Discard()
}

func (s *server) check(conn *frame.Conn, pid int, network string) error {
	if s.starter == nil {
		return errors.New("the holder does not see its starter")
	}
	if err := conn.Write(msgDone, &number{wireVersion}); err != nil {
		return err
	}
	var m proof
	if err := frame.Expect(conn, msgProof, maxProof, &m); err != nil {
		return err
	}
	fds, err := conn.Claim(1)
	if err != nil {
		return err
	}
	peer, err := look(pid, network, fds[0])
	if err != nil {
		return err
	}
	if m.secret != s.secret {
		return errNotSeen
	}
	if what := s.starter.differs(peer); what != "" {
		return errors.New("its " + what + " differs")
	}
	return nil
}

// keepSecret makes a working directory with a secret name. Nobody sees from outside whether a
// process is in a Landlock domain, but the kernel lets one in a domain look only into processes of
// the same domain or of one inside it. It also lets the user of a namespace look into this process,
// which is hidden from others, from the namespace around this one alone.
func keepSecret() (string, *MountError) {
	var random [16]byte
	if _, err := unix.Getrandom(random[:], 0); err != nil {
		return "", mountError("getrandom", err)
	}
	dir := "/." + hex.EncodeToString(random[:])
	err := unix.Mkdir(dir, 0o700)
	if err == nil {
		err = unix.Chdir(dir)
	}
	if err != nil {
		return "", mountError("entering a secret directory", err)
	}
	return dir, nil
}

func secretOf(pid int) (string, error) { return os.Readlink(procPath(pid, "cwd")) }

var errNotSeen = errors.New("it cannot look into the holder, as if Landlock or a user namespace confined it")

// prove makes the holder admit this process. Without a secret the holder refuses; if it has just
// ended, which looks alike, the connection has ended, too.
func (c *Client) prove() error {
	own, err := os.Open(ownStatus)
	if err != nil {
		return err
	}
	defer own.Close()
	secret := ""
	if c.holder != nil {
		secret, _ = secretOf(c.holder.Pid)
	}
	if err := c.conn.Write(msgProof, &proof{secret}, int(own.Fd())); err != nil {
		return err
	}
	if err := hello(c.conn); err != nil {
		return err
	}
	return c.trusted()
}

// trusted refuses a holder that could hand this process's files to a process that is confined more.
func (c *Client) trusted() error {
	if c.holder == nil {
		return &MountError{Index: -1, Call: CallJoin, Reason: errNotSeen.Error()}
	}
	own, err := os.ReadFile(ownStatus)
	if err != nil {
		return err
	}
	its, err := os.ReadFile(procPath(c.holder.Pid, "status"))
	if err != nil {
		return unix.EPIPE // it has ended
	}
	for _, name := range []string{noNewPrivs, "Seccomp", seccompFilters} {
		if proc.StatusField(string(own), name) != proc.StatusField(string(its), name) {
			return &MountError{Index: -1, Call: CallJoin, Reason: "its " + ofStatus + name + " differs"}
		}
	}
	return nil
}
