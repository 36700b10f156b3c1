package host

import "github.com/sbxhost/sbxhost/shared"

// Report tells how a command was run. It is complete once Wait has returned.
type Report struct {
	Sandbox  string
	Engine   string
	Decision string // "sandboxed" or "unsandboxed"
	Rule     string // which rule decided
	// Result is how the command ended; nil when that is not known.
	Result *shared.Result
	// Degraded are the messages of what was held less well than asked.
	Degraded []string
	// Violations are what the command was denied, where its engine tells.
	Violations []Violation
	// Limits says which mechanism held each limit.
	Limits []LimitReport
}

// Violation is something that a sandbox has denied its command.
type Violation struct {
	Operation string // as the engine calls it, such as "file-read-data"
	Path      string // what it was done to: a path, an address, a service
	// Attribute of the definition that would allow it, or that denies it; empty
	// where none does.
	Attribute string
	Message   string // for people
}

// LimitReport says how a limit was held.
type LimitReport struct {
	Limit, Mechanism, Hold string
}

// ExitCode is the exit status, or -1 for a command that a signal has ended, as
// in os/exec. Shell gives it in the form of shells.
func (e *ExitError) ExitCode() int {
	if e.Signal != 0 {
		return -1
	}
	return e.Code
}
