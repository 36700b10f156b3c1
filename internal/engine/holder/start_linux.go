package holder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// Connect starts the session's holder, or one without a session, and connects to it. While another
// process has a holder of the session, Connect waits for its end, but not long.
func Connect(ctx context.Context, config Config) (*Client, error) {
	c, err := startHolder(ctx, config)
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case config.Dir == "":
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil, fmt.Errorf("%w in %q: %w", ErrUnavailable, config.Dir, err)
}

func startHolder(ctx context.Context, config Config) (*Client, error) {
	if config.Dir == "" {
		return begin(ctx, -1, nil, config)
	}
	uid, gid := os.Geteuid(), os.Getegid()
	if config.User != nil {
		uid, gid = int(config.User.Uid), int(config.User.Gid)
	}
	dir, err := SessionDir(config.Dir, uid, gid, Place, "u"+strconv.Itoa(uid))
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	patience, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	fd, err := hostpath.LockAt(patience, dir, lockName, unix.LOCK_EX)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, ErrOther
	}
	if err != nil {
		return nil, err
	}
	lock := os.NewFile(uintptr(fd), lockName)
	defer lock.Close() // a holder that starts here has it too
	return begin(ctx, dir, lock, config)
}

// lockPatience is how long another holder of the session may take to end.
const lockPatience = 10 * time.Second

// openSession opens a session's directory. It follows no link, and only the user uid, this process's
// user and root can write to it.
func openSession(dir string, uid int) (fd int, st unix.Stat_t, err error) {
	fd, err = hostpath.OpenNoSymlinks(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, st, hostpath.OpenError(dir, err)
	}
	if err = unix.Fstat(fd, &st); err != nil {
		err = &os.PathError{Op: "stat", Path: dir, Err: err}
	} else if st.Mode&0o022 != 0 || int(st.Uid) != os.Geteuid() && st.Uid != 0 && int(st.Uid) != uid {
		err = fmt.Errorf("the session directory %q is another user's, or others can write to it", dir)
	}
	if err != nil {
		unix.Close(fd)
		fd = -1
	}
	return fd, st, err
}

// SessionDir opens a directory of a user in a session's directory, and makes a missing one. It
// follows no link: the user may be able to write to the directory above, and this process may be
// root's. The user need not be able to enter the session's directory: a holder gets the descriptor.
func SessionDir(session string, uid, gid int, names ...string) (int, error) {
	top, st, err := openSession(session, uid)
	if err != nil {
		return -1, err
	}
	defer unix.Close(top)
	dir, failed := makeDirs(top, names...)
	if failed != nil {
		return -1, failed
	}
	err = unix.Fstat(dir, &st)
	switch {
	case err != nil:
	case int(st.Uid) == os.Geteuid(): // just made, with the caller's umask
		err = errors.Join(unix.Chmod(fdPath+strconv.Itoa(dir), 0o700), unix.Fchownat(dir, "", uid, gid, unix.AT_EMPTY_PATH))
	case int(st.Uid) != uid:
		err = unix.EPERM
	}
	if err != nil {
		unix.Close(dir)
		return -1, fmt.Errorf("opening %q of the session: %w", path.Join(names...), err)
	}
	return dir, nil
}

// begin starts a holder, with a directory and its lock or, if that is negative, without.
func begin(ctx context.Context, dir int, lock *os.File, config Config) (*Client, error) {
	ours, theirs, err := frame.Pair()
	if err != nil {
		return nil, err
	}
	of := ofSession
	if dir < 0 {
		of = alone
	}
	process, log, err := spawn(dir, argv(of), 0, theirs, lock, config)
	theirs.Close()
	if err != nil {
		ours.Close()
		return nil, err
	}
	c := &Client{conn: ours, log: log, holder: process.Process, exited: process.gone}
	stop := context.AfterFunc(ctx, c.Close)
	version, err := answerOf(ours)
	switch {
	case !stop():
		err = ctx.Err()
	case ended(err):
		err = errors.New("it ended before it was ready")
		if output := proc.Quote(log.Text()); output != "" {
			err = fmt.Errorf("%w; it said: %s", err, output)
		}
	case err == nil && version != wireVersion:
		err = fmt.Errorf("the holder's program is of another release than this one (it speaks version %d, this one %d)", version, wireVersion)
	}
	if err != nil {
		c.killStopped()
		ours.Close()
		ours.Discard()
		return nil, err
	}
	c.gone, c.lose = context.WithCancelCause(context.Background())
	go c.watch()
	return c, nil
}

// spawn executes the holder in namespaces of its own, or an init, which also has those of more. Its
// arguments are words and the names of this process's namespaces. It dies with this process, even
// while it is stopped.
func spawn(dir int, words []string, more uintptr, first, lock *os.File, config Config) (_ *child, log *proc.Log, err error) {
	attr, err1 := namespaces(config.User)
	spaces, err2 := OwnNamespaces()
	binary, err3 := config.Executable()
	null, err4 := os.Open(os.DevNull)
	defer frame.CloseFiles([]*os.File{binary, null})
	log, err5 := proc.NewLog()
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		log.Close()
		return nil, nil, err
	}
	attr.Cloneflags |= more
	files := []*os.File{null, log.File, log.File, first, binary}
	if lock != nil {
		files = append(files, lock)
	}
	process, err := startProcess(dir, append(words, spaces...), &os.ProcAttr{
		// One processor: it waits and passes on.
		Env:   []string{"GOMAXPROCS=1"},
		Files: files,
		Sys:   attr,
	})
	if err != nil {
		log.Close()
		return nil, nil, mountError(CallClone, err)
	}
	return process, log, nil
}

// A child is a process that was started here; its end is valid after gone is closed.
type child struct {
	*os.Process
	gone   chan struct{}
	status syscall.WaitStatus
	err    error
}

// startProcess starts a process on a thread that lives as long: the parent-death signal follows the
// thread. Its working directory is dir, unless that is negative, even if its user could not reach
// it. A descriptor would not do: it leads to mounts of this namespace, and the new namespace can use
// none of those.
func startProcess(dir int, words []string, attr *os.ProcAttr) (_ *child, err error) {
	started, c := make(chan struct{}), &child{gone: make(chan struct{})}
	go proc.OnOwnThread(func() {
		if attr.Sys.Pdeathsig = syscall.SIGKILL; dir < 0 {
			attr.Dir = "/"
		} else if err = unix.Unshare(unix.CLONE_FS); err == nil {
			err = unix.Fchdir(dir)
		}
		if err == nil {
			c.Process, err = os.StartProcess(words[0], words, attr)
		}
		failed := err != nil
		close(started)
		if !failed {
			proc.Await(c.Pid)
			var state *os.ProcessState
			if state, c.err = c.Process.Wait(); c.err == nil {
				c.status = state.Sys().(syscall.WaitStatus)
			}
			close(c.gone)
		}
	})
	<-started
	return c, err
}

// ambient is what an ordinary user's holder keeps when it is executed, only over its own namespace:
// to mount, to enter a sandbox that it completes, and for the kernel's work in overlays.
var ambient = []uintptr{
	unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_MKNOD, unix.CAP_SETFCAP,
	unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_SETPCAP, // for a sandbox's loopback interface, its refused connections, and to give none of these away
	unix.CAP_SETUID, unix.CAP_SETGID, // for the users of a command's own namespace
}

func namespaces(user *syscall.Credential) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, Credential: user}
	one := func(id uint32) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: int(id), HostID: int(id), Size: 1}}
	}
	switch {
	case user != nil && os.Geteuid() == 0:
		// That user's rights and no others: root's files belong to nobody in there.
		attr.UidMappings = one(user.Uid)
		groups := slices.Sorted(slices.Values(append(slices.Clip(user.Groups), user.Gid)))
		for _, g := range slices.Compact(groups) {
			attr.GidMappings = append(attr.GidMappings, one(g)...)
		}
		attr.GidMappingsEnableSetgroups = true
		if user.Uid != 0 {
			attr.AmbientCaps = ambient
		}
	case os.Geteuid() == 0:
		// All users, so that files keep their owners.
		var err error
		if attr.UidMappings, err = IdentityMap("/proc/self/uid_map"); err == nil {
			attr.GidMappings, err = IdentityMap("/proc/self/gid_map")
		}
		if err != nil {
			return nil, err
		}
		// In a nested namespace it may be denied for ever, as after `unshare -r`.
		allowed, err := os.ReadFile("/proc/self/setgroups")
		attr.GidMappingsEnableSetgroups = err == nil && string(allowed) == "allow\n"
	default:
		attr.UidMappings, attr.GidMappings = one(uint32(os.Geteuid())), one(uint32(os.Getegid()))
		attr.AmbientCaps = ambient
	}
	return attr, nil
}

// IdentityMap maps every user of this namespace to itself.
func IdentityMap(path string) ([]syscall.SysProcIDMap, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m := parseIDMap(string(b))
	if len(m) == 0 {
		return nil, fmt.Errorf("%s makes no sense", path)
	}
	return m, nil
}

func parseIDMap(text string) []syscall.SysProcIDMap {
	var m []syscall.SysProcIDMap
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 {
			return nil
		}
		inside, err := strconv.ParseUint(f[0], 10, 32)
		size, err2 := strconv.ParseUint(f[2], 10, 32)
		if err != nil || err2 != nil || size == 0 {
			return nil
		}
		m = append(m, syscall.SysProcIDMap{ContainerID: int(inside), HostID: int(inside), Size: int(size)})
	}
	return m
}
