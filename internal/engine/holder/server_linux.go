package holder

import (
	"errors"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// maxTrees is how many unused trees are kept. Each command copies the mounts of one; a session has
// two or three plans at a time.
const maxTrees = 4

// server is the holder's side of its client's connections.
type server struct {
	conn  *frame.Conn
	space *space
	umask int            // of the starter, and so of inits and commands
	alive sync.WaitGroup // requests

	mu    sync.Mutex
	trees []*tree // for further inits, one for each plan; the last used at the end
}

// An initProcess is an init.
type initProcess struct {
	pidfd    int
	tree     *tree
	overlays *ownOverlays
	group    *group         // if it is the first process of one
	requests sync.WaitGroup // about it, which use its descriptor and its group
}

// serve answers the client until its connections end.
func (s *server) serve() {
	if s.conn.Write(msgDone, &number{wireVersion}) == nil {
		s.listen(s.conn, nil)
	}
	s.conn.Close()
	s.alive.Wait()
}

// listen begins what the client asks for over a connection, until the connection ends: the client's
// own, or that of one of its inits.
func (s *server) listen(from *frame.Conn, about *initProcess) {
	defer from.Discard()
	for {
		kind, payload, err := from.Next(maxPayload)
		if err == nil {
			err = s.answer(from, about, kind, payload)
		}
		if err != nil {
			return
		}
	}
}

// answer begins what a message asks for, and answers over the connection that comes with the message.
// It returns an error for an invalid message.
func (s *server) answer(from *frame.Conn, about *initProcess, kind byte, payload []byte) error {
	var m frame.Message
	switch {
	case kind == msgTree && about == nil:
		m = new(Plan)
	case kind == msgOverlay && about == nil:
		m = &overlayRequest{}
	case kind == msgSame && about != nil:
		m = &number{}
	case kind == msgRun && (about == nil || about.group != nil):
		m = &run{}
	default:
		return frame.Malformed("unknown")
	}
	if err := frame.Decode(payload, m); err != nil {
		return err
	}
	if m, ok := m.(*Plan); ok {
		s.alive.Go(func() {
			// A failure repeats for the starter of an init in it, who receives it.
			if t, err := s.enter(*m, false); err == nil {
				s.exit(t)
			}
		})
		return nil
	}
	files := uint32(1)
	if r, ok := m.(*run); ok {
		files += r.files
	}
	fds, err := from.Claim(files)
	if err != nil {
		return err
	}
	answers, err := frame.NewConn(fds[0])
	if err != nil {
		frame.CloseAll(fds[1:])
		return err
	}
	requests := &s.alive
	if about != nil {
		requests = &about.requests
	}
	requests.Go(func() {
		defer answers.Close()
		var err error
		switch m := m.(type) {
		case *run:
			if err = s.run(answers, about, m, fds[1:]); err == nil {
				return // its end is reported
			}
		case *overlayRequest:
			err = s.space.haveOverlay(m.source, m.own)
		default:
			err = s.same(about)
		}
		if err != nil {
			answers.Write(msgFailed, message(err))
		} else {
			answers.Write(msgDone, &number{})
		}
	})
	return nil
}

// same fails unless a process with the same plan would start in the tree of this one now.
func (s *server) same(as *initProcess) error {
	t, err := s.enter(as.tree.plan, true)
	if err != nil {
		return err
	}
	defer s.exit(t)
	if t != as.tree || !as.overlays.current() || proc.Ended(as.pidfd, 0) {
		return mountError("looking at a tree", errors.New("it is another one now"))
	}
	return nil
}

// run starts an init and reports its start and its end. joins is an init whose group it joins, or nil.
// The init dies with the connection.
func (s *server) run(answers *frame.Conn, joins *initProcess, r *run, fds []int) error {
	closeFiles := sync.OnceFunc(func() { frame.CloseAll(fds) })
	defer closeFiles()
	var g *group
	if joins != nil {
		g = joins.group
	}
	t, err := s.enter(r.plan, !r.ahead)
	if err != nil {
		ofTree := *message(err) // other requests have the same error
		ofTree.Shared = true
		return &ofTree
	}
	defer s.exit(t)
	p := &initProcess{tree: t}
	if p.overlays, err = s.space.allOverlays(r.overlays); err != nil {
		return err
	}
	defer p.overlays.remove()
	if r.first {
		if g, err = newGroup(r.namespaces, answers); err != nil {
			return err
		}
		defer g.end(s)
		p.group = g
	}
	var pid int
	fork := func() { pid, p.pidfd, err = s.fork(r, fds, p.overlays, joins != nil) }
	if g == nil {
		t.thread.Do(fork)
	} else if refused := g.do(s, t, fork); refused != nil {
		return refused
	}
	closeFiles()
	p.overlays.close()
	if err != nil {
		return err
	}
	defer unix.Close(p.pidfd)
	// A user with more descriptors in transit than this process may open sends no more.
	if err := answers.Write(msgDone, &number{uint32(pid)}, p.pidfd); err != nil {
		unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
		reap(pid)
		return mountError("handing over the init", err)
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		s.listen(answers, p)
		unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0) // its client gave it up, or is gone
	}()
	answers.Write(msgExit, &number{uint32(reap(pid))})
	answers.Close()
	<-heard
	p.requests.Wait() // those that have joined it have died with it
	return nil
}

// fork starts the init with exactly the descriptors that were sent, from 0 on, and then its
// overlays. It must run on the tree's thread, or that of a group that has entered the tree.
func (s *server) fork(r *run, fds []int, overlays *ownOverlays, joins bool) (pid, pidfd int, err error) {
	pidfd = -1
	// One that joins others dies with their pid 1, and finds no parent to compare.
	attr := &syscall.SysProcAttr{Cloneflags: uintptr(r.namespaces), Setsid: true, Pdeathsig: syscall.SIGKILL, PidFD: &pidfd, AmbientCaps: initCaps}
	if r.first {
		attr.Cloneflags &^= groupNamespaces // which the thread is in
	}
	if joins {
		attr.Pdeathsig = 0
	}
	if r.grouped {
		attr.UseCgroupFD, attr.CgroupFD = true, fds[len(fds)-1]
		fds = fds[:len(fds)-1]
	}
	var files []uintptr
	for _, fd := range slices.Concat(fds, overlays.fds) {
		files = append(files, uintptr(fd))
	}
	// The holder's own is 0, so that everybody could write a command's files. A thread with a mount
	// namespace of its own has a umask of its own.
	unix.Umask(s.umask)
	defer unix.Umask(0)
	start := func() (int, error) {
		return syscall.ForkExec(r.argv[0], r.argv, &syscall.ProcAttr{
			Dir: "/",
			// One processor, with which it starts faster; the command gets its own environment.
			Env:   []string{"GOMAXPROCS=1"},
			Files: files,
			Sys:   attr,
		})
	}
	pid, err = start()
	if err != nil && r.grouped {
		attr.UseCgroupFD = false // no clone3, or a group that the holder's user does not own: the client moves it
		pid, err = start()
	}
	return pid, pidfd, mountError("executing "+r.argv[0], err)
}

// reap waits for a child.
func reap(pid int) (status syscall.WaitStatus) {
	proc.Await(pid)
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
			return status
		}
	}
}

// enter returns the tree of a plan, a new or an existing one, and counts one more user. With look,
// it checks an existing one.
func (s *server) enter(plan Plan, look bool) (*tree, error) {
	for {
		t, fresh := s.take(plan)
		<-t.ready
		current := t.failed == nil
		if current && !fresh && look {
			t.thread.Do(func() {
				if current = t.built.current(); !current && !t.built.moved() {
					t.putBack()
					current = t.built.current()
				}
			})
		}
		if current {
			return t, nil
		}
		s.drop(t)
		if t.failed != nil {
			return nil, t.failed
		}
	}
}

func (s *server) take(plan Plan) (t *tree, fresh bool) {
	s.mu.Lock()
	if s.space.watch.changed() {
		for len(s.trees) > 0 {
			s.forget(s.trees[0])
		}
	}
	i := slices.IndexFunc(s.trees, func(t *tree) bool { return t.plan == plan })
	if fresh = i < 0; fresh {
		t = &tree{plan: plan, ready: make(chan struct{})}
	} else {
		t = s.trees[i]
		s.trees = slices.Delete(s.trees, i, i+1)
	}
	t.running++
	if s.trees = append(s.trees, t); len(s.trees) > maxTrees {
		s.forget(s.trees[0])
	}
	s.mu.Unlock()
	if !fresh {
		return t, false
	}
	t.failed = t.make(s.space)
	close(t.ready)
	return t, true
}

// drop is exit from a tree that is not to be used again.
func (s *server) drop(t *tree) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(t)
	t.running--
	t.endUnused()
}

// forget takes t out of use. The caller holds s.mu.
func (s *server) forget(t *tree) {
	s.trees = slices.DeleteFunc(s.trees, func(other *tree) bool { return other == t })
	if !t.dropped {
		t.dropped = true
		t.endUnused()
	}
}

// stay counts one more user of a tree, unless that has ended.
func (s *server) stay(t *tree) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.dropped && t.running == 0 {
		return false
	}
	t.running++
	return true
}

func (s *server) exit(t *tree) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.running--
	t.endUnused()
}
