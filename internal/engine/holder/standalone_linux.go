package holder

import (
	"context"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// A StandaloneInit is an init without a holder, for a command that shares nothing: it makes the tree too. It
// starts before its command is known, as the child of the process that starts the command, and dies
// with that process.
type StandaloneInit struct {
	*child
	conn *frame.Conn // until the StandaloneInit knows what to run, it ends with this connection
}

// standaloneNamespaces are those of a StandaloneInit, besides a user and a mount namespace. Its command gets a
// cgroup namespace when it is in its control group.
const standaloneNamespaces = unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// StartStandalone starts a StandaloneInit. arg is the argument that makes the program a StandaloneInit; network gives it
// a network namespace of its own.
func StartStandalone(config Config, arg string, network bool) (*StandaloneInit, error) {
	ours, theirs, err := frame.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	more := uintptr(standaloneNamespaces)
	if network {
		more |= unix.CLONE_NEWNET
	}
	words := []string{fdPath + strconv.Itoa(binaryFD), arg}
	c, log, err := spawn(-1, words, more, theirs, nil, config)
	if err != nil {
		ours.Close()
		return nil, err
	}
	go func() {
		<-c.gone
		log.Close()
	}()
	return &StandaloneInit{c, ours}, nil
}

// Overlays makes the overlays of directories. Their layers are in a session's directory, scratch,
// which the user can reach, and whose owner removes them. It returns the sources that can have none,
// each with the reason.
func (a *StandaloneInit) Overlays(ctx context.Context, scratch string, sources []string) (refused map[string]error, err error) {
	refused = map[string]error{}
	dir, st, err := openSession(scratch, os.Geteuid())
	if err != nil {
		for _, source := range sources {
			refused[source] = err
		}
		return refused, nil
	}
	unix.Close(dir)
	stop := context.AfterFunc(ctx, func() { a.conn.Close() })
	var made ownAnswer
	if err = a.conn.Write(msgOwn, &ownRequest{scratch, nodeOf(&st), sources}); err == nil {
		err = frame.Expect(a.conn, msgOwn, maxPayload, &made)
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	for _, failed := range made.refused {
		if failed.Index >= 0 && failed.Index < len(sources) {
			refused[sources[failed.Index]] = &failed
		}
	}
	return refused, err
}

func nodeOf(st *unix.Stat_t) string {
	return strconv.FormatUint(st.Dev, 10) + ":" + strconv.FormatUint(st.Ino, 10)
}

// Run makes the StandaloneInit the init with these words and these files, as descriptors from 0 on.
func (a *StandaloneInit) Run(words []string, files []*os.File) error {
	defer a.conn.Close()
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	return a.conn.Write(msgRun, &run{argv: words, files: uint32(len(fds))}, fds...)
}

// Pid is its number, until Wait returns.
func (a *StandaloneInit) Pid() int { return a.child.Pid }

func (a *StandaloneInit) Wait() (syscall.WaitStatus, error) {
	<-a.gone
	return a.status, a.err
}

// Discard ends one that has run nothing.
func (a *StandaloneInit) Discard() {
	a.conn.Close()
	a.Kill()
	a.Wait()
}

// StandaloneBuilder is the init's end of a StandaloneInit.
type StandaloneBuilder struct {
	space    *space
	failed   error
	overlays map[string]int // by source
}

// BecomeStandalone turns a process of [StartStandalone] into its init. starter are the namespaces of the
// process's starter. Until it receives the init's words, it makes what every tree needs. It returns
// the words, or nil if there is nothing to run. The StandaloneBuilder keeps the error of the tree.
func BecomeStandalone(starter []string) (s *StandaloneBuilder, words []string) {
	s = &StandaloneBuilder{overlays: map[string]int{}}
	if s.failed = apart(starter); s.failed == nil {
		umask := unix.Umask(0)
		s.space, s.failed = newSpace(-1)
		unix.Umask(umask)
	}
	from := &frame.Receiver{Socket: clientFD}
	kind, payload, err := frame.Read(from, maxPayload)
	for err == nil && kind == msgOwn {
		if err = s.makeOverlays(payload); err == nil {
			kind, payload, err = frame.Read(from, maxPayload)
		}
	}
	var m run
	if err != nil || kind != msgRun || frame.Decode(payload, &m) != nil || len(from.Files) != int(m.files) || m.files > firstOverlay {
		return s, nil // its starter needs no init
	}
	first, err := proc.InARow(from.Files)
	for i := range from.Files {
		if err == nil {
			err = unix.Dup3(first+i, i, 0)
			unix.Close(first + i)
		}
		unix.Close(from.Files[i])
	}
	if err != nil || proc.CloseOnExecFrom(3) != nil {
		return s, nil
	}
	return s, m.argv
}

// firstOverlay is the lowest descriptor of an overlay, above those that come with a run. For a much
// higher one the kernel would enlarge the table of descriptors, and wait until each processor has
// been idle.
const firstOverlay = 16

// makeOverlays makes the overlays that a message asks for, and answers.
func (s *StandaloneBuilder) makeOverlays(payload []byte) error {
	var m ownRequest
	if err := frame.Decode(payload, &m); err != nil {
		return err
	}
	umask := unix.Umask(0)
	defer unix.Umask(umask)
	failed := s.failed
	if failed == nil && s.space.dir < 0 {
		s.space.dir, failed = scratchDir(m.scratch, m.node)
	}
	o := &ownOverlays{}
	if failed == nil {
		o = s.space.ownOverlays(m.sources)
		defer o.close()
	}
	var made ownAnswer
	for i, source := range m.sources {
		reason := failed
		if reason == nil {
			reason = o.failed[i]
		}
		if reason == nil {
			fd, err := unix.FcntlInt(uintptr(o.fds[i]), unix.F_DUPFD_CLOEXEC, firstOverlay)
			if err == nil {
				s.overlays[source] = fd
				continue
			}
			reason = mountError("mounting an overlay", err)
		}
		made.refused = append(made.refused, *message(at(reason, i)))
	}
	_, err := unix.Write(clientFD, frame.Encode(msgOwn, &made))
	return err
}

// scratchDir opens the holder's own directory in a session's directory, which must have the device
// and inode of node.
func scratchDir(session, node string) (int, error) {
	dir, st, err := openSource(session)
	if err == nil {
		defer unix.Close(dir)
		if nodeOf(&st) != node {
			err = unix.ESTALE
		}
	}
	if err != nil {
		return -1, mountError("opening the session's directory", err)
	}
	return makeDirs(dir, Place, "u"+strconv.Itoa(os.Geteuid()))
}

// build makes the tree of a plan.
func (s *StandaloneBuilder) build(plan Plan) error {
	if s.failed != nil {
		return s.failed
	}
	ops, err := plan.ops()
	if err != nil {
		return mountError("reading the plan", err)
	}
	umask := unix.Umask(0)
	defer unix.Umask(umask)
	if err = s.space.prepare(ops); err == nil {
		var b *builder
		if b, err = s.space.build(ops); err == nil {
			b.close()
		}
	}
	unix.Close(s.space.watch.table)
	if err != nil {
		message(err).Shared = true
	}
	return err
}
