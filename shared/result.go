package shared

import (
	"fmt"
	"syscall"
	"time"
)

// Result is how a command ended.
type Result struct {
	Status   ExitStatus    // of the command itself
	TimedOut bool          // Command.Timeout ended it
	Duration time.Duration // from execution to end, measured by the engine
	Usage    Usage         // until the end
}

// Usage is what a command used, with all that it started. Zero means not measured: some engines do
// not measure, and for a killed command only a control group can.
type Usage struct {
	// CPU is processor time, in user and kernel mode. A control group counts all of its processes,
	// with the launcher and the init. Without a control group it counts the processes that have
	// ended and whose parent has waited for them.
	CPU time.Duration `json:"cpu_ns"`
	// Memory is a peak in bytes. With Together it is the peak of all processes together, with their
	// part of the file cache. Otherwise it is the peak of the largest process, which is at least
	// the memory of the process that forked it (the init, or the engine).
	Memory uint64 `json:"memory_bytes"`
	// Together says that a control group measured Memory. This is so if the definition limits
	// memory and a control group enforces the limit.
	Together bool `json:"memory_together"`
}

// ExitStatus is how a process ended: by a code or by a signal.
type ExitStatus struct {
	Code       int            // 0 to 255; without meaning if Signal is set
	Signal     syscall.Signal // the signal that killed it; 0 when it exited
	CoreDumped bool           // the kernel dumped core
}

// Success reports whether the exit code is 0.
func (s ExitStatus) Success() bool { return s.Code == 0 && s.Signal == 0 }

// Shell is the status as shells show it: the code, or 128 plus the signal's number.
func (s ExitStatus) Shell() int {
	if s.Signal != 0 {
		return 128 + int(s.Signal)
	}
	return s.Code
}

// String returns text for people: "exit status 1", "signal: terminated".
func (s ExitStatus) String() string {
	switch {
	case s.Signal != 0 && s.CoreDumped:
		return fmt.Sprintf("signal: %v (core dumped)", s.Signal)
	case s.Signal != 0:
		return fmt.Sprintf("signal: %v", s.Signal)
	}
	return fmt.Sprintf("exit status %d", s.Code)
}

// Event is a report while a command runs.
type Event struct {
	Kind    EventKind         // its subject
	Time    time.Time         // by the engine's clock
	Message string            // one sentence for people
	Details map[string]string // for programs; keys depend on the kind
}

// LimitEvent reports how well a limit of a definition is enforced: "enforced", "approximated" or
// "not enforced", and by which mechanism, which may be empty.
func LimitEvent(limit, mechanism, hold string) Event {
	message := fmt.Sprintf("limits.%s is %s", limit, hold)
	if mechanism != "" {
		message += " by " + mechanism
	}
	return Event{Kind: EventLimit, Message: message, Details: map[string]string{"limit": limit, "mechanism": mechanism, "hold": hold}}
}

// A TracedCall is a call that failed, as the command's process showed it. A command can forge it.
type TracedCall struct {
	Wants  string `json:"wants"`  // "read", "write", "execute" or "connect"
	Target string `json:"target"` // an absolute path inside, or an address and a port
	Error  string `json:"error"`  // the kernel's answer: "ENOENT"
}

// EventKind names a kind of event. Readers ignore unknown kinds.
type EventKind string

const (
	EventProgress  EventKind = "progress"  // a long preparation goes on, such as an image pull
	EventDegraded  EventKind = "degraded"  // something is enforced less well than the Spec asks
	EventViolation EventKind = "violation" // the command tried something forbidden
	EventLimit     EventKind = "limit"     // details: "limit", "mechanism", "hold" (enforced, approximated or not enforced)
	EventDiscarded EventKind = "discarded" // details: "path" and "count": this many files written there ended with the command; "processes": this many processes did
	EventNetwork   EventKind = "network"   // a connection or a name: details as in Decision.Details of package egress
	EventTraced    EventKind = "traced"    // at the end of a command with Trace. details: "calls", a JSON array of [TracedCall]
	EventDropped   EventKind = "dropped"   // details: "count", the number of events that a slow reader missed
)
