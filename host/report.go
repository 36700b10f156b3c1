package host

import (
	"cmp"
	"errors"

	"github.com/sbxhost/sbxhost/internal/audit"
	"github.com/sbxhost/sbxhost/internal/denial"
	"github.com/sbxhost/sbxhost/internal/egress"
	"github.com/sbxhost/sbxhost/internal/env"
	"github.com/sbxhost/sbxhost/internal/facts"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/shared"
)

// Report is how a command ran, or why it did not. It is complete after Wait, or after an error of
// Start. Its JSON follows docs/result.schema.json.
type Report struct {
	Sandbox string `json:"sandbox"`
	Engine  string `json:"engine"` // the engine's own name; empty if the host reached none
	// EngineProgram is the engine's executable; nil for an engine that is part of this program or
	// was installed with it.
	EngineProgram *EngineProgram `json:"engine_program"`
	Decision      string         `json:"decision"` // "sandboxed", "unsandboxed" or "denied"; empty if no Host was asked
	Rule          string         `json:"rule"`     // the rule that decided; "not-started" if something failed before one did
	Reason        string         `json:"reason"`   // why, for people

	End
	// Result is the engine's report of the end; nil if the end is unknown.
	Result *shared.Result `json:"-"`

	// Session is the command's session.
	Session SessionReport `json:"-"`
	// Review is the review that the command wrote to; empty if it wrote to the workspace itself.
	Review string `json:"review"`
	// Overlays are the directories, as commands see them, in which changes end with the session.
	// Degraded lists directories that should be overlays and are not.
	Overlays []string `json:"overlays"`
	// Discarded counts the files that the command left in its private home, which ended with it. It
	// omits caches, logs and histories of programs, and is 0 if the engine does not count.
	Discarded uint64 `json:"discarded_files"`
	// Ended counts the processes that still ran when the command exited, and that ended with it; 0
	// if the engine does not count.
	Ended uint64 `json:"ended_processes"`
	// LostWorktrees are worktrees of the workspace's repositories that the command made, and that
	// ended with it. The repositories still list them.
	LostWorktrees []string `json:"lost_worktrees"`
	// Degraded lists what the sandbox enforced less well than the definition asks.
	Degraded []string `json:"degraded"`
	// Limits says which mechanism enforced each limit.
	Limits []LimitReport `json:"limits"`
	// Repositories are git repositories that appeared while the command ran. If Definition.Git is
	// "full", or links lead from what git executes to writable paths, they include repositories in
	// which the command changed that.
	Repositories []RepositoryReport `json:"repositories"`
	// Instructions are files and directories that appeared while the command ran, and that tools of
	// the host obey: editors' tasks, hooks of coding agents, .envrc; see DefaultProtected. They
	// include protected paths that now lead elsewhere through a replaced link. With an engine
	// without mount.nested, they include every other protected path that was missing, and those
	// that the command changed. Repositories covers git.
	Instructions []string `json:"instructions"`
	// Denials are what the sandbox denied to a command that failed or was not found, from the
	// engine, the network gate and the command's own output. For other commands they are what the
	// gate refused, and files that git says it left unchanged.
	Denials []Denial `json:"denials"`
	// Network lists the connections of the command, made and refused, if its definition lists names
	// or ports.
	Network []NetworkUse `json:"network"`
}

// End is how a command ended, without a guess from its exit status.
type End struct {
	// Outcome is "exited", "signaled", "timed_out" or "failed": the sandbox failed or refused, or
	// the command does not exist. It is empty until the end is known.
	Outcome string `json:"outcome"`
	// ExitCode is nil unless the command exited by itself; Signal and SignalNumber are nil unless a
	// signal killed it.
	ExitCode     *int    `json:"exit_code"`
	Signal       *string `json:"signal"` // "SIGTERM"
	SignalNumber *int    `json:"signal_number"`
	CoreDumped   bool    `json:"core_dumped"`
	TimedOut     bool    `json:"timed_out"`
	// Status is the exit status of sbxhost exec: the command's own, or 128 and its signal; 124 after
	// the time limit; 125 if the sandbox failed or refused; 126 for a command that cannot be
	// executed; 127 for a missing one.
	Status     int   `json:"status"`
	DurationMS int64 `json:"duration_ms"`
	// Usage is nil if nothing measured it.
	Usage *shared.Usage `json:"usage"`
	// Error is why the sandbox failed or refused; else empty. Attribute is the part of the
	// definition at fault, and Hint what to do, if known.
	Error     string `json:"error"`
	Attribute string `json:"attribute"`
	Hint      string `json:"hint"`
}

// Refused returns the Report of a command that failed with err before a Host was asked.
func Refused(sandbox string, err error) Report {
	return complete(Report{Sandbox: sandbox, End: endOf(nil, err)})
}

// status is the exit status of sbxhost exec, as of env, timeout and docker run.
func status(err error) int {
	exit, ended := errors.AsType[*ExitError](err)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrTimedOut):
		return 124
	case ended:
		return exit.Shell()
	case errors.Is(err, shared.ErrNotFound):
		return 127
	case errors.Is(err, shared.ErrNotExecutable):
		return 126
	}
	return 125
}

// endOf combines the engine's result with the error of Start or Wait.
func endOf(result *shared.Result, err error) (e End) {
	e.Status = status(err)
	if _, ended := errors.AsType[*ExitError](err); err != nil && !ended {
		e.Outcome, e.Error = "failed", err.Error()
		if cause, ok := errors.AsType[*shared.Error](err); ok {
			e.Attribute, e.Hint = cause.Attribute, cause.Hint
		}
	}
	if errors.Is(err, ErrTimedOut) { // before the command ran, or the engine hung
		e.Outcome, e.TimedOut = "timed_out", true
	}
	if result == nil {
		return e
	}
	e.DurationMS, e.TimedOut, e.CoreDumped = result.Duration.Milliseconds(), result.TimedOut, result.Status.CoreDumped
	if result.Usage != (shared.Usage{}) {
		e.Usage = &result.Usage
	}
	outcome := "exited"
	if signal := result.Status.Signal; signal != 0 {
		outcome, e.Signal, e.SignalNumber = "signaled", new(shared.SignalName(signal)), new(int(signal))
	} else {
		e.ExitCode = &result.Status.Code
	}
	if result.TimedOut {
		outcome = "timed_out"
	}
	e.Outcome = cmp.Or(e.Outcome, outcome)
	return e
}

// DecodeEvent returns an event as a Report has it: a Denial, a LimitReport or an audit.NetworkUse;
// nil for an event with only a message.
func DecodeEvent(e *shared.Event) any {
	switch e.Kind {
	case shared.EventViolation:
		return denial.FromEvent(e)
	case shared.EventLimit:
		return LimitReport{e.Details["limit"], e.Details["mechanism"], e.Details["hold"]}
	case shared.EventNetwork:
		d := egress.ParseDecision(e.Details)
		return audit.NetworkUse{
			Name: hostpath.Line(d.Name), Port: d.Port, By: hostpath.Line(d.Source), Allowed: d.Allowed, Reason: hostpath.Line(d.Reason), Connections: max(d.Connections, 1),
			Sent: d.Sent, Received: d.Received, DurationMS: d.Duration.Milliseconds(),
		}
	}
	return nil
}

// complete copies all lists that grow, and makes nil lists empty.
func complete(r Report) Report {
	r.Overlays, r.LostWorktrees, r.Degraded, r.Instructions = list(r.Overlays), list(r.LostWorktrees), list(r.Degraded), list(r.Instructions)
	r.Limits, r.Denials, r.Network, r.Repositories = list(r.Limits), list(r.Denials), list(r.Network), list(r.Repositories)
	for i := range r.Repositories {
		r.Repositories[i].ActsOn = list(r.Repositories[i].ActsOn)
	}
	return r
}

// list returns a copy that is not nil.
func list[T any](of []T) []T { return append([]T{}, of...) }

// RepositoryReport is a git repository in a writable directory that appeared or changed while a
// command ran.
//
//	type RepositoryReport struct {
//		Path string `json:"path"`
//		// ActsOn describes what a command made or changed: hooks, settings that name commands or further
//		// configuration, files that settings name, and what git continues from or uses, such as a rebase.
//		// It has the first ten, raw: quote them. More counts the rest.
//		ActsOn []string `json:"acts_on"`
//		More   int      `json:"more"`
//		// Unclear says, in one line, why git may act on, or write to, more than that; else empty.
//		Unclear string `json:"unclear"`
//		// Superproject is the user's repository whose next git status enters this one, as a submodule,
//		// and acts on what the report lists. Such reports come first. Empty for others.
//		Superproject string `json:"superproject"`
//		// Existing says that the repository existed before the command, already as that submodule.
//		Existing bool `json:"existing"`
//	}
//	func (r *RepositoryReport) Executes() bool
//	func (r *RepositoryReport) String() string
type RepositoryReport = facts.RepositoryReport

// SessionReport is the session of a command.
type SessionReport struct {
	Name string `json:"name"` // empty for the Host's own session
	Dir  string `json:"dir"`  // on the host; empty if commands share nothing
}

// Denial is one thing that a sandbox denied to its command.
//
//	type Denial struct {
//		Path      string `json:"path"`      // as the command sees it; empty if it is not about a path
//		Host      string `json:"host"`      // name or address, with the port; empty if it is not about one
//		Operation string `json:"operation"` // "read", "write", "execute", "connect", "call" or "use"; an engine may report others
//		Reason    string `json:"reason"`    // one sentence for people
//		// Attribute is the attribute of the definition that causes the denial; empty for none.
//		Attribute string `json:"attribute"`
//		// At is FILE:LINE of that attribute, if the reader of the configuration has set it.
//		At string `json:"at"`
//		// Value is the value, in HCL, with which that attribute would allow it: "true", `"/data"`. It
//		// is empty if there is no proposal.
//		Value string `json:"-"`
//		// Element says that Attribute is a list, and that Value is one more element of it.
//		Element bool `json:"-"`
//		// Change is the change of the definition that Value proposes, for people. A change that gives up a
//		// protection has no Value: nobody should add it unread.
//		Change string `json:"change"`
//		// Guess says that the denial comes from the command's own words, and not from an observation:
//		// the sandbox does deny this, but perhaps the command failed for another reason.
//		Guess bool `json:"guess"`
//	}
type Denial = denial.Denial

// LimitReport is how a limit was enforced.
type LimitReport struct {
	Limit     string `json:"limit"`
	Mechanism string `json:"mechanism"`
	Hold      string `json:"hold"` // "enforced", "approximated" or "not enforced"
}

// Explanation is what a run of a command would do, and why.
type Explanation struct {
	Sandbox  string `json:"sandbox"`
	Engine   string `json:"engine"`
	Source   string `json:"engine_source"` // where the engine comes from
	Decision string `json:"decision"`      // "sandboxed", "unsandboxed", or "denied" with Asks
	Rule     string `json:"rule"`
	Reason   string `json:"reason"` // for people
	// Asks means that somebody must approve the command first; the other fields then describe the
	// approved run.
	Asks bool `json:"asks"`
	// Exposure is what an unsandboxed command can reach beyond its definition. Sensitive are files
	// of the workspace that look as if they held secrets.
	Exposure  []string       `json:"exposed"`
	Sensitive []string       `json:"sensitive"`
	Session   SessionReport  `json:"-"`
	Spec      shared.Spec    `json:"-"`
	Command   shared.Command `json:"-"` // its Env has secret values; show Env instead
	Env       []EnvVar       `json:"env"`
	Plan      shared.Plan    `json:"-"`
}

// EnvVar is where a variable of a command's environment comes from.
//
//	type EnvVar struct {
//		Name   string `json:"name"`
//		Origin string `json:"origin"` // "built-in list", `env_passthrough "GO*"`, "env", ...
//	}
type EnvVar = env.Var
