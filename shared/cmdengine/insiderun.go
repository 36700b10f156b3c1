package cmdengine

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/engine/cgroup"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/internal/proc"
	"github.com/sbxhost/sbxhost/shared"
)

// insideRun is a command in an init. It begins with the process that is the init, or has it inside.
type insideRun struct {
	conn           *sandboxinit.Conn
	sandbox        *sandbox
	launch         *Launch
	process        Process
	stderr         *proc.Log
	family         family
	group          *cgroup.Group // empty if no limit needs one; members use that of their session
	oomKillsBefore uint64        // the group's count at the start

	gate      Gate   // nil if there is none, or another run owns it
	closeGate func() // ends the gate, or the reports of another run's gate; may be nil
	// confinement was sent before there was a command; nil for an init that was started for one.
	confinement *sandboxinit.Confinement

	releases sync.Once
	finishes sync.Once
	output   string       // its stderr; valid after finish
	oomKills uint64       // processes killed for lack of memory; valid after finish
	used     shared.Usage // the group's count; valid after finish

	mu       sync.Mutex
	escalate *time.Timer // nil before Kill

	exited chan struct{} // closed when the process is gone and status and lost are final
	status syscall.WaitStatus
	lost   error // why status is unknown
}

// begin passes the command's stdio to the init, begins the gate of the launch, and calls start. With a
// nil emit it reports nothing of the gate yet.
func (r *insideRun) begin(ctx context.Context, stdio [3]*os.File, emit func(shared.Event), start func(context.Context) error) error {
	started := make(chan struct{})
	defer close(started)
	go r.disown(started)
	if r.launch.Gate == nil {
		if err := r.conn.Complete(stdio, nil); err != nil {
			return err
		}
		return start(ctx)
	}
	sockets, initEnd, err := sandboxinit.NewSockets()
	if err != nil {
		return err
	}
	if err = r.conn.Complete(stdio, initEnd); err == nil {
		r.gate, err = r.launch.Gate(sockets)
	}
	if err != nil {
		sockets.Close()
		switch said := r.conn.GiveUp(ctx); {
		case said != nil:
			return said // the cause of the missing sockets
		case r.launch.Sandbox == nil && sockets.Lost():
			return sandboxinit.ErrInitLost // its launcher knows why
		}
		return err
	}
	if emit != nil {
		r.gate.Hear(emit, false)
	}
	r.closeGate = func() {
		sockets.Close()
		r.gate.Close()
	}
	return start(ctx)
}

// observe records a launcher's children, so that they can be killed with it. An init that makes its
// sandbox itself needs no record: the kernel ends a pid namespace with its pid 1, and giveUp records
// the family of a member of a session. A look at an init's threads would also make its reaper spin
// until each of them is gone.
func (r *insideRun) observe() {
	if r.launch.Sandbox == nil {
		r.family.observe(r.process.Pid(), false, r.exited)
	}
}

// disown ends the wait for an init whose launcher is gone. A launcher that is killed at birth can
// leave a child that waits for it forever, and holds the init's end of the socket and the command's
// files.
func (r *insideRun) disown(started <-chan struct{}) {
	select {
	case <-started:
		return
	case <-r.exited:
	}
	if r.wasKilled() {
		sandboxinit.KillOrphans(0)
	}
	select {
	case <-started:
	case <-time.After(endPatience): // the init's last message may still arrive
		r.conn.HangUp()
	}
}

// giveUp ends the launcher without the init's help. One that clears up ends after the init, which
// finds its control socket closed, even before it runs.
func (r *insideRun) giveUp() {
	if r.sandbox.engine.config.initEnds() {
		r.conn.Close()
		if f, ok := r.process.(forkedProcess); ok {
			f.Signal(syscall.SIGCONT) // a stopped init would not notice
		}
		return
	}
	if r.launch.member() { // the kernel would leave its processes to pid 1
		r.family.observe(r.process.Pid(), true, r.exited)
	}
	r.process.Kill()
}

// wasKilled reports whether a signal ended the launcher, perhaps with its parent.
func (r *insideRun) wasKilled() bool { return r.lost != nil || !r.status.Exited() }

// awaitRest waits until nothing of the command is left. An init that is alone ends within a
// millisecond and holds nothing of the command's, so finish waits for it.
func (r *insideRun) awaitRest() {
	if status, err := r.conn.Wait(); err == nil && status.Alone && len(r.launch.Args) == 0 && !r.launch.member() && r.group.Empty() {
		r.release()
		return
	}
	r.finish()
}

// release ends what the command needed outside.
func (r *insideRun) release() {
	r.releases.Do(func() {
		if r.closeGate != nil {
			r.closeGate()
		}
		if r.launch.Ended != nil {
			r.launch.Ended()
		}
	})
}

// finish waits until the launcher and all that it started are gone.
func (r *insideRun) finish() { r.finishes.Do(r.close) }

func (r *insideRun) close() {
	// Now: systemd ends a scope with the launcher.
	r.oomKills = r.group.Killed() - r.oomKillsBefore
	ending := endPatience
	if r.sandbox.engine.config.initEnds() {
		ending = clearingUp
	}
	select {
	case <-r.exited:
	case <-time.After(ending):
		r.observe()
		r.process.Kill()
		<-r.exited
	}
	r.family.end()
	r.oomKills = max(r.oomKills, r.group.Killed()-r.oomKillsBefore)
	if !r.launch.member() { // the group counts also what others of the session use
		r.used.CPU, r.used.Memory = r.group.Usage()
		r.group.Remove()
	}
	r.release()
	r.conn.Close()
	r.output = r.stderr.Text()
}

// unknown is the error for a command whose end nobody reported. A killed launcher takes the init
// along, or should.
func (r *insideRun) unknown() error {
	if r.lost != nil {
		sandboxinit.KillOrphans(0)
	}
	return broken(r.launcherEnd() + " before the command's end was known" + stderrSuffix(r.output))
}

// launcherEnd says how the launcher ended, as the beginning of a sentence.
func (r *insideRun) launcherEnd() string {
	status, name := r.status, "init"
	if len(r.launch.Args) > 0 {
		name = filepath.Base(r.launch.Path)
	}
	switch {
	case r.lost != nil:
		return r.lost.Error()
	case status.Signaled():
		return "the launcher " + name + " was killed by " + shared.SignalName(status.Signal())
	case status.ExitStatus() > 128 && status.ExitStatus() <= 128+maxSignal:
		// Launchers and shells report their child's end like this.
		return fmt.Sprintf("the init was killed by %s (the launcher %s exited with status %d)",
			shared.SignalName(syscall.Signal(status.ExitStatus()-128)), name, status.ExitStatus())
	}
	return fmt.Sprintf("the launcher %s exited with status %d", name, status.ExitStatus())
}

func stderrSuffix(stderr string) string {
	if line := proc.Quote(stderr); line != "" {
		return "; it said: " + line
	}
	return ""
}

// Usage is the group's count, or else the init's.
func (r *insideRun) Usage() shared.Usage {
	used, _ := r.conn.Wait() // zero for an unknown end
	u := shared.Usage{CPU: cmp.Or(r.used.CPU, max(0, time.Duration(used.CPU))), Memory: used.Memory}
	if r.used.Memory > 0 {
		u.Memory, u.Together = r.used.Memory, true
	}
	return u
}

// remarks are the reports after a command's end.
func (r *insideRun) remarks() (events []shared.Event) {
	if r.oomKills > 0 {
		count := strconv.FormatUint(r.oomKills, 10)
		events = append(events, shared.Event{Kind: shared.EventViolation,
			Message: "limits.memory was used up; processes that the kernel killed for it: " + count,
			Details: map[string]string{"limit": "memory", "killed": count}})
	}
	if calls := r.conn.Traced(); len(calls) > 0 {
		events = append(events, tracedEvent(calls))
	}
	status, err := r.conn.Wait()
	if err != nil {
		return events
	}
	discarded := func(n uint64, one, more, key string, details map[string]string) {
		if n == 0 {
			return
		}
		if n > 1 {
			one = more
		}
		details[key] = strconv.FormatUint(n, 10)
		events = append(events, shared.Event{Kind: shared.EventDiscarded, Message: details[key] + one, Details: details})
	}
	discarded(status.NewFiles, " file written to the private home was discarded", " files written to the private home were discarded", "count", map[string]string{"path": r.sandbox.attached.Fresh})
	discarded(status.Ended, " process that still ran was ended with the command", " processes that still ran were ended with the command", "processes", map[string]string{})
	return events
}
