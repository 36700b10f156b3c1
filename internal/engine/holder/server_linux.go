package holder

import (
	"os"
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

// server is the holder's side of all connections.
type server struct {
	byRoot   bool
	listener int
	incoming *os.File // the listener, for its closer
	space    *space
	over     chan struct{} // for a holder with one client: closed when that is gone

	mu      sync.Mutex
	clients map[*client]bool
	trees   map[string]*tree // by plan
	clock   uint64
	closed  bool
}

// accept accepts clients until the last one has gone.
func (s *server) accept() {
	s.mu.Lock()
	s.incoming = os.NewFile(uintptr(s.listener), "listener")
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return
	}
	raw, err := s.incoming.SyscallConn()
	if err != nil {
		return
	}
	for {
		var fd int
		var failed error
		err := raw.Read(func(listener uintptr) bool {
			fd, _, failed = unix.Accept4(int(listener), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			return failed != unix.EAGAIN
		})
		if err != nil {
			return // closed
		}
		if failed != nil {
			continue
		}
		if !s.admitted(fd) {
			unix.Close(fd)
			continue
		}
		if c, err := newConn(fd); err == nil {
			s.admit(c)
		}
	}
}

// client is one engine.
type client struct {
	server *server
	conn   *conn

	mu      sync.Mutex
	gone    bool
	running map[uint32]running
	groups  map[uint32]*group // by the request of the first init
	alive   sync.WaitGroup
}

// running is a process of a client.
type running struct {
	pidfd    int
	tree     *tree
	overlays *ownOverlays
}

// admit serves a connection, unless the last client has just gone.
func (s *server) admit(conn *conn) {
	c := &client{server: s, conn: conn, running: map[uint32]running{}, groups: map[uint32]*group{}}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.clients[c] = true
	}
	s.mu.Unlock()
	if closed {
		conn.close()
		return
	}
	go c.serve()
}

// leave ends the holder with its last client: later ones find nobody, and start another holder.
func (s *server) leave(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, c)
	if len(s.clients) > 0 || s.closed {
		return
	}
	s.closed = true
	if s.over != nil {
		close(s.over)
		return
	}
	unix.Unlinkat(s.space.dir, socketName, 0)
	if s.incoming != nil {
		s.incoming.Close()
	}
}

// serve answers one client until its connection ends, and then ends all that is its.
func (c *client) serve() {
	defer c.server.leave(c)
	if c.conn.write(msgHello, &pair{value: wireVersion}) == nil {
		c.listen()
	}
	c.conn.close()
	c.conn.discard()
	c.mu.Lock()
	c.gone = true
	for _, r := range c.running {
		unix.PidfdSendSignal(r.pidfd, unix.SIGKILL, nil, 0)
	}
	c.mu.Unlock()
	c.alive.Wait()
}

func (c *client) listen() {
	for {
		kind, payload, err := c.conn.read()
		if err == nil {
			err = c.obey(kind, payload)
		}
		if err != nil {
			return
		}
	}
}

// obey begins what a message asks for. It returns an error for an invalid message.
func (c *client) obey(kind byte, payload []byte) error {
	switch kind {
	case msgRun:
		r := &run{}
		if err := frame.Decode(payload, r); err != nil {
			return err
		}
		fds, err := c.conn.claim(r.files)
		if err == nil {
			c.alive.Go(func() { c.run(r, fds) })
		}
		return err
	case msgTree:
		var m planned
		if err := frame.Decode(payload, &m); err != nil {
			return err
		}
		c.alive.Go(func() {
			// A failure repeats for the starter of an init in it, who receives it.
			if t, failed := c.server.enter(m.plan, false); failed == nil {
				c.server.exit(t)
			}
		})
		return nil
	case msgSame:
		var m pair
		if err := frame.Decode(payload, &m); err != nil {
			return err
		}
		c.alive.Go(func() {
			same := uint32(0)
			if c.same(m.value) {
				same = 1
			}
			c.conn.write(msgSame, &pair{m.request, same})
		})
		return nil
	case msgOverlay:
		var m overlayOf
		if err := frame.Decode(payload, &m); err != nil {
			return err
		}
		failed := c.server.space.haveOverlay(m.source, m.own)
		if failed != nil {
			return c.conn.write(msgFailed, &refusal{m.request, *failed})
		}
		return c.conn.write(msgDone, &pair{request: m.request})
	}
	return frame.Malformed("unknown")
}

// same reports whether a process started in the tree in which a process with the same plan would
// start now.
func (c *client) same(of uint32) bool {
	c.mu.Lock()
	r, ok := c.running[of]
	ok = ok && !proc.Ended(r.pidfd, 0)
	c.mu.Unlock()
	if !ok {
		return false
	}
	t, failed := c.server.enter(r.tree.plan, true)
	if failed != nil {
		return false
	}
	defer c.server.exit(t)
	return t == r.tree && r.overlays.current()
}

// run starts an init, reports it, waits for it and reports its end.
func (c *client) run(r *run, fds []int) {
	t, failed := c.server.enter(r.plan, !r.ahead)
	if failed != nil {
		failed.Shared = true
		frame.CloseAll(fds)
		c.conn.write(msgFailed, &refusal{r.request, *failed})
		return
	}
	defer c.server.exit(t)
	overlays, failed := c.server.space.allOverlays(r.overlays)
	if failed != nil {
		frame.CloseAll(fds)
		c.conn.write(msgFailed, &refusal{r.request, *failed})
		return
	}
	defer overlays.remove()
	var pid, pidfd int
	do, leave, failed := c.enter(r, t)
	if failed == nil {
		defer leave()
		var refused *MountError
		if failed = do(func() { pid, pidfd, refused = c.fork(r, t, fds, overlays) }); failed == nil {
			failed = refused
		}
	}
	frame.CloseAll(fds)
	overlays.close()
	if failed != nil {
		c.conn.write(msgFailed, &refusal{r.request, *failed})
		return
	}
	// A user with more descriptors in transit than this process may open sends no more.
	if err := c.conn.write(msgDone, &pair{r.request, uint32(pid)}, pidfd); err != nil {
		unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
		failed = mountError("handing over the init", err)
	}
	status := reap(pid)
	c.mu.Lock()
	delete(c.running, r.request)
	c.mu.Unlock()
	unix.Close(pidfd)
	if failed != nil {
		c.conn.write(msgFailed, &refusal{r.request, *failed})
		return
	}
	c.conn.write(msgExit, &pair{r.request, uint32(status)})
}

// fork starts the init with exactly the descriptors that were sent, from 0 on, and then its
// overlays. It must run on the tree's thread, or that of a group that has entered the tree.
func (c *client) fork(r *run, t *tree, fds []int, overlays *ownOverlays) (pid, pidfd int, failed *MountError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return 0, -1, &MountError{Index: -1, Call: "starting the init", Reason: "its client is gone"}
	}
	pidfd = -1
	// One that joins others dies with their pid 1, and finds no parent to compare.
	attr := &syscall.SysProcAttr{Cloneflags: uintptr(r.namespaces), Setsid: true, Pdeathsig: syscall.SIGKILL, PidFD: &pidfd, AmbientCaps: initCaps}
	if r.first {
		attr.Cloneflags &^= groupNamespaces // which the thread is in
	}
	if r.joins != 0 {
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
	unix.Umask(int(r.umask))
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
	pid, err := start()
	if err != nil && r.grouped {
		attr.UseCgroupFD = false // no clone3, or a group that the holder's user does not own: the client moves it
		pid, err = start()
	}
	if err != nil {
		return 0, -1, mountError("executing "+r.argv[0], err)
	}
	c.running[r.request] = running{pidfd, t, overlays}
	return pid, pidfd, nil
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
func (s *server) enter(plan string, look bool) (*tree, *MountError) {
	for {
		t, fresh := s.take(plan)
		<-t.ready
		if t.failed == nil && !fresh && look {
			current := false
			t.do(func() { current = t.built.current() })
			if !current {
				s.drop(t)
				s.exit(t)
				continue
			}
		}
		if t.failed != nil {
			s.drop(t)
			s.exit(t)
			return nil, t.failed
		}
		return t, nil
	}
}

func (s *server) take(plan string) (t *tree, fresh bool) {
	s.mu.Lock()
	if s.space.watch.changed() {
		for _, old := range s.trees {
			s.forget(old)
		}
	}
	t = s.trees[plan]
	if t == nil {
		fresh = true
		t = &tree{plan: plan, work: make(chan func()), ready: make(chan struct{})}
		s.trees[plan] = t
	}
	t.running++
	s.clock++
	t.used = s.clock
	s.evict()
	s.mu.Unlock()
	if !fresh {
		return t, false
	}
	ops, err := decodePlan([]byte(plan))
	if err != nil {
		t.failed = mountError("reading the plan", err)
		close(t.ready)
		return t, true
	}
	t.start(s.space, ops)
	return t, true
}

// evict drops the trees that were not used for the longest time. The caller holds s.mu.
func (s *server) evict() {
	for len(s.trees) > maxTrees {
		var oldest *tree
		for _, t := range s.trees {
			if oldest == nil || t.used < oldest.used {
				oldest = t
			}
		}
		s.forget(oldest)
	}
}

func (s *server) drop(t *tree) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(t)
}

// forget takes t out of use. The caller holds s.mu.
func (s *server) forget(t *tree) {
	if s.trees[t.plan] == t {
		delete(s.trees, t.plan)
	}
	if !t.dropped {
		t.dropped = true
		if t.running == 0 {
			close(t.work)
		}
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
	if t.dropped && t.running == 0 {
		close(t.work)
	}
}
