package shared

import (
	"fmt"
	"syscall"
	"time"
)

// Signal is a signal's number on the machine that runs the host.
type Signal = syscall.Signal

// Result is how a command ended.
type Result struct {
	Status   ExitStatus    // of the command itself
	TimedOut bool          // Command.Timeout ended it
	Duration time.Duration // from its execution to its end, as the engine saw it
	Usage    Usage         // what it has used until then
}

// Usage is what a command has used, with all that it has started. Zero is what nobody has
// counted: not every engine does, and of a command that was killed with all that it has started
// only a control group knows.
type Usage struct {
	// CPU is time of processors, in the system and outside of it. A control group counts
	// everything in it, the launcher and the init among that. Without one, it is of the
	// processes that have ended and that somebody has waited for.
	CPU time.Duration `json:"cpu_ns"`
	// Memory is the most that was in use at once, in bytes: with Together of all processes,
	// their part of the cache of files included, and else of the one that had most, which is
	// never less than what forked it: the init, or an engine without one.
	Memory uint64 `json:"memory_bytes"`
	// Together says that a control group has counted Memory. There is one where a
	// definition limits memory, and something here holds that.
	Together bool `json:"memory_together"`
}

// ExitStatus is the exact way a process ended: by a code or by a signal.
type ExitStatus struct {
	Code       int    // 0 to 255; meaningless when Signal is set
	Signal     Signal // the signal that killed it; 0 when it exited
	CoreDumped bool   // the kernel says that it has dumped core
}

// Success reports an exit with code 0.
func (s ExitStatus) Success() bool { return s.Code == 0 && s.Signal == 0 }

// Shell is the status in the form in which shells give it: the code, or 128
// plus the signal's number.
func (s ExitStatus) Shell() int {
	if s.Signal != 0 {
		return 128 + int(s.Signal)
	}
	return s.Code
}

// String is for people: "exit status 1", "signal: terminated".
func (s ExitStatus) String() string {
	switch {
	case s.Signal != 0 && s.CoreDumped:
		return fmt.Sprintf("signal: %v (core dumped)", s.Signal)
	case s.Signal != 0:
		return fmt.Sprintf("signal: %v", s.Signal)
	}
	return fmt.Sprintf("exit status %d", s.Code)
}

// Event is something worth telling while a command runs.
type Event struct {
	Kind    EventKind         // what it is about
	Time    time.Time         // by the engine's clock
	Message string            // one sentence for people
	Details map[string]string // for machines; keys depend on the kind
}

// A TracedCall is what a command failed at: the command's word, no more.
type TracedCall struct {
	Wants  string `json:"wants"`  // "read", "write", "execute" or "connect"
	Target string `json:"target"` // an absolute path inside, or an address and a port
	Error  string `json:"error"`  // the kernel's answer: "ENOENT"
}

// EventKind names a kind of event. Readers ignore kinds that they don't know.
type EventKind string

const (
	EventProgress  EventKind = "progress"  // a long preparation goes on, such as an image pull
	EventDegraded  EventKind = "degraded"  // something is held less well than was asked
	EventViolation EventKind = "violation" // the command tried what it may not
	EventLimit     EventKind = "limit"     // details: "limit", "mechanism", "hold" (held, approximated or not held)
	EventDiscarded EventKind = "discarded" // details: "path", "count": files written there are gone with the command; "processes": so many are
	EventNetwork   EventKind = "network"   // a connection or a name: details as package egress has them in Decision.Details
	EventTraced    EventKind = "traced"    // of a command with Trace, at its end. details: "calls", a JSON array of [TracedCall]
	EventDropped   EventKind = "dropped"   // details: "count", the events lost to a slow reader
)
