package holder

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// An Alone is an init without a holder, for a command that shares nothing with others: it makes the
// tree, too. It is started before there is a command, as the child of who will have one, and dies with that.
type Alone struct {
	*child
	line *os.File // it ends with that, too, as long as it has not been told what to run
}

// aloneNamespaces are those of an Alone, beside a user and a mount namespace. Its command gets a cgroup
// namespace when it is in its control group.
const aloneNamespaces = unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// StartAlone starts one. arg is the word that makes the program that; network says that it has a network
// namespace of its own.
func StartAlone(config Config, arg string, network bool) (*Alone, error) {
	ours, theirs, err := socketpair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	more := uintptr(aloneNamespaces)
	if network {
		more |= unix.CLONE_NEWNET
	}
	words := []string{fdPath + strconv.Itoa(binaryFD), arg, strconv.Itoa(clientFD)}
	c, said, err := spawn(-1, words, more, theirs, nil, config)
	if err != nil {
		unix.Close(ours)
		return nil, err
	}
	go func() {
		<-c.gone
		said()
	}()
	return &Alone{c, os.NewFile(uintptr(ours), "init")}, nil
}

// Run has it be the init that words and files make, from descriptor 0 on.
func (a *Alone) Run(words []string, files []*os.File) error {
	defer a.line.Close()
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	raw, err := a.line.SyscallConn()
	if err != nil {
		return err
	}
	return frame.Send(raw, frame.Encode(msgRun, &run{argv: words, files: uint32(len(fds))}, 256), fds...)
}

// Pid is its number, until it was waited for.
func (a *Alone) Pid() int { return a.child.Pid }

// Wait waits for its end.
func (a *Alone) Wait() (syscall.WaitStatus, error) {
	<-a.gone
	return a.status, a.err
}

// Discard ends one that has run nothing.
func (a *Alone) Discard() {
	a.line.Close()
	a.Kill()
	a.Wait()
}

// Solitude is such an init's end of it.
type Solitude struct {
	space  *space
	failed *MountError
}

// Settle makes, of a process that [StartAlone] has started, the init that it is to be: while nobody has
// said yet which, it makes what every tree is made in. It gives the words, and no error.
func Settle() (s *Solitude, words []string) {
	s = &Solitude{}
	if s.failed = apart([2]int{mountFD, userFD}); s.failed == nil {
		umask := unix.Umask(0)
		s.space, s.failed = newSpace(-1)
		unix.Umask(umask)
	}
	from := &frame.Receiver{Socket: clientFD}
	kind, payload, err := frame.Read(from, maxPayload)
	var m run
	if err != nil || kind != msgRun || frame.Decode(payload, &m) != nil || len(from.Files) != int(m.files) {
		return s, nil // who has started it needs none
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

// build makes the tree of a plan and, in a session's directory, overlays of its own, which that directory's owner
// removes.
func (s *Solitude) build(plan Plan, scratch string, sources []string) (overlays []int, failed *MountError) {
	if s.failed != nil {
		return nil, s.failed
	}
	ops, err := decodePlan([]byte(plan.encoded))
	if err != nil {
		return nil, mountError("reading the plan", err)
	}
	umask := unix.Umask(0)
	defer unix.Umask(umask)
	failed = s.space.prepare(ops)
	if failed == nil {
		var b *builder
		if b, failed = s.space.build(ops); failed == nil {
			b.close()
		}
	}
	unix.Close(s.space.watch.table)
	if failed != nil {
		failed.Shared = true
		return nil, failed
	}
	if len(sources) > 0 && scratch != "" {
		dir, err := openSource(scratch)
		if err != nil {
			return nil, mountError("opening the session's directory", err)
		}
		if s.space.dir, failed = makeDirs(dir, Place, "u"+strconv.Itoa(os.Geteuid())); failed != nil {
			return nil, failed
		}
	}
	o, failed := s.space.ownOverlays(sources)
	if failed != nil {
		return nil, failed
	}
	return o.fds, nil
}
