package holder

import (
	"errors"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// finished is what a holder answers to [Announce]; anything else is why it could
// not make what was left.
const finished = "."

// Announce sends, over the socket whose number Start has added to a launcher's
// argv, a descriptor of the mount namespace that the caller is in, waits until
// the late steps have been made there, and closes the socket. A holder that is stopped
// says nothing: the wait ends when the other end of lifeline, another socket, is closed.
func Announce(socket, lifeline int) error {
	defer unix.Close(socket)
	ns, err := unix.Open("/proc/self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("opening the mount namespace", err)
	}
	defer unix.Close(ns)
	if err := unix.Sendmsg(socket, []byte{0}, unix.UnixRights(ns), nil, unix.MSG_NOSIGNAL); err != nil {
		return os.NewSyscallError("sendmsg", err)
	}
	answer := make([]byte, 512)
	for {
		// A hang-up is told of without being asked for.
		ready := []unix.PollFd{{Fd: int32(socket), Events: unix.POLLIN}, {Fd: int32(lifeline)}}
		if _, err := unix.Poll(ready, -1); err == unix.EINTR {
			continue
		} else if err != nil {
			return os.NewSyscallError("poll", err)
		}
		if ready[0].Revents == 0 {
			return errors.New("the engine has gone")
		}
		n, err := unix.Read(socket, answer)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return os.NewSyscallError("read", err)
		case n == 0:
			return errors.New("the session's holder has gone")
		case string(answer[:n]) != finished:
			return errors.New(string(answer[:n]))
		}
		return nil
	}
}

// A finisher makes the late steps of one launcher. Nil has none to make.
type finisher struct {
	steps  []Op
	socket int
	done   chan struct{} // closed when they are made, or never will be; nil before begin
}

// finisherFor gives the finisher of a run, and what its launcher is started with.
func finisherFor(r *run, fds []int) (f *finisher, argv []string, files []int, failed *MountError) {
	if r.late == "" {
		return nil, r.argv, fds, nil
	}
	steps, err := decodePlan([]byte(r.late))
	if err != nil {
		return nil, nil, nil, mountError("reading the late steps", err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, nil, mountError("socketpair", err)
	}
	argv = append(r.argv[:len(r.argv):len(r.argv)], strconv.Itoa(len(fds)))
	return &finisher{steps: steps, socket: pair[0]}, argv, append(fds[:len(fds):len(fds)], pair[1]), nil
}

// begin makes the steps beside the launcher, whose end it must not wait for.
func (f *finisher) begin(t *tree) {
	if f == nil {
		return
	}
	f.done = make(chan struct{})
	go func() {
		defer close(f.done)
		f.finish(t)
	}()
}

// end frees what f has. A launcher that is killed at its birth can leave a
// process behind that has the other end of the socket and never says anything.
func (f *finisher) end() {
	if f == nil {
		return
	}
	if f.done != nil {
		unix.Shutdown(f.socket, unix.SHUT_RDWR)
		<-f.done
	}
	unix.Close(f.socket)
}

// finish waits for the sandbox to be there, makes what is left, and says so.
func (f *finisher) finish(t *tree) {
	ns, err := f.receive()
	if err != nil {
		return
	}
	defer unix.Close(ns)
	answer := finished
	if failed := f.mount(t, ns); failed != nil {
		answer = failed.Error()
		if failed.Index >= 0 {
			answer = "mounting " + strconv.Quote(f.steps[failed.Index].Dest) + ": " + answer
		}
	}
	unix.SendmsgN(f.socket, []byte(answer), nil, nil, unix.MSG_NOSIGNAL)
}

// receive takes the descriptor by the poller, without a thread of its own.
func (f *finisher) receive() (ns int, err error) {
	own, err := unix.FcntlInt(uintptr(f.socket), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.SetNonblock(own, true); err != nil {
		unix.Close(own)
		return -1, err
	}
	file := os.NewFile(uintptr(own), "finisher")
	defer file.Close()
	raw, err := file.SyscallConn()
	if err != nil {
		return -1, err
	}
	var failed error
	var n, controls int
	rights := make([]byte, unix.CmsgSpace(4))
	err = raw.Read(func(fd uintptr) bool {
		n, controls, _, _, failed = unix.Recvmsg(int(fd), make([]byte, 1), rights, unix.MSG_CMSG_CLOEXEC)
		return failed != unix.EAGAIN && failed != unix.EINTR
	})
	if err := errors.Join(err, failed); err != nil {
		return -1, err
	}
	if n == 0 {
		return -1, syscall.EPIPE
	}
	messages, err := unix.ParseSocketControlMessage(rights[:controls])
	if err != nil || len(messages) != 1 {
		return -1, errors.Join(errProtocol, err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		closeFDs(fds)
		return -1, errors.Join(errProtocol, err)
	}
	return fds[0], nil
}

// mount makes the steps: copies of the trees, which only the tree's thread can
// take, are mounted by one that has entered the sandbox. It has more rights there
// than anything inside, and follows no symlink.
func (f *finisher) mount(t *tree, ns int) (failed *MountError) {
	copies := make([]int, len(f.steps))
	for i := range copies {
		copies[i] = -1
	}
	defer func() {
		for _, fd := range copies {
			if fd >= 0 {
				unix.Close(fd)
			}
		}
	}()
	t.do(func() {
		for i, o := range f.steps {
			from := ""
			switch o.Kind {
			case Bind:
				from = Trees + path.Clean("/"+o.Source)
			case HideFile:
				from = Null
			default:
				continue
			}
			var err error
			if copies[i], err = unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW); err != nil {
				copies[i] = -1
				failed = at(mountError("open_tree", err), i)
				return
			}
		}
	})
	if failed != nil {
		return failed
	}
	onOwnThread(func() { failed = f.inside(copies, ns) })
	return failed
}

// inside must run on a thread that ends with it.
func (f *finisher) inside(copies []int, ns int) *MountError {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return mountError("unshare", err)
	}
	if err := unix.Setns(ns, unix.CLONE_NEWNS); err != nil {
		return mountError("entering the sandbox", err)
	}
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return mountError("open", err)
	}
	defer unix.Close(root)
	for i, o := range f.steps {
		if failed := lateStep(root, o, copies[i]); failed != nil {
			return at(failed, i)
		}
	}
	return nil
}

func lateStep(root int, o Op, tree int) *MountError {
	point, failed := latePoint(root, o, tree)
	if failed != nil {
		return failed
	}
	defer unix.Close(point)
	if o.Kind == ReadOnlyBind {
		var err error
		if tree, err = unix.OpenTree(point, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE); err != nil {
			return mountError("open_tree", err)
		}
		defer unix.Close(tree)
		if failed := setAttributes(tree, unix.MOUNT_ATTR_RDONLY|locked, true); failed != nil {
			return failed
		}
	}
	if err := unix.MoveMount(tree, "", point, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return mountError("move_mount", err)
	}
	return nil
}

// latePoint opens what a step mounts on. In memory that is fresh for each command
// it is made first, as bubblewrap would make it.
func latePoint(root int, o Op, tree int) (int, *MountError) {
	dest := strings.TrimPrefix(o.Dest, "/")
	if dest == "" || path.Clean(o.Dest) != "/"+dest {
		return -1, &MountError{Index: -1, Call: "mounting", Reason: "no destination"}
	}
	fd, err := openBeneath(root, dest)
	if err == nil {
		return fd, nil
	}
	if err != unix.ENOENT || o.Kind != Bind {
		return -1, mountError("opening the mount point", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(tree, &st); err != nil {
		return -1, mountError("fstat", err)
	}
	dir, name := path.Split(dest)
	at, err := unix.Dup(root)
	if err != nil {
		return -1, mountError("dup", err)
	}
	defer func() { unix.Close(at) }()
	for part := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		if part == "" {
			continue
		}
		next, err := openBeneath(at, part)
		if err == unix.ENOENT {
			if err = unix.Mkdirat(at, part, 0o700); err == nil {
				next, err = openBeneath(at, part)
			}
		}
		if err != nil {
			return -1, mountError("making the mount point", err)
		}
		unix.Close(at)
		at = next
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = unix.Mkdirat(at, name, 0o755)
	} else {
		err = unix.Mknodat(at, name, unix.S_IFREG|0o644, 0)
	}
	if err != nil {
		return -1, mountError("making the mount point", err)
	}
	if fd, err = openBeneath(at, name); err != nil {
		return -1, mountError("opening the mount point", err)
	}
	return fd, nil
}

// onOwnThread runs fn on a thread that ends with it, and is not the process's
// first: that one lives for ever, and what is done to it /proc tells of the process.
func onOwnThread(fn func()) {
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		if syscall.Gettid() == syscall.Getpid() {
			onOwnThread(fn)
			runtime.UnlockOSThread()
		} else {
			fn() // never unlocked
		}
		close(done)
	}()
	<-done
}
