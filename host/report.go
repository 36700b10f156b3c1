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

// Report tells how a command was run, or why it was not. It is complete once Wait has
// returned, or Start an error. As JSON it has names and values of docs/result.schema.json.
type Report struct {
	Sandbox string `json:"sandbox"`
	Engine  string `json:"engine"` // as it calls itself; empty when none was reached
	// EngineProgram is what was executed as that; nil for an engine that is part of this
	// program or was installed with it.
	EngineProgram *EngineProgram `json:"engine_program"`
	Decision      string         `json:"decision"` // "sandboxed", "unsandboxed" or "denied"; empty: it did not come to that
	Rule          string         `json:"rule"`     // which rule decided; empty where the sandbox itself was refused
	Reason        string         `json:"reason"`   // why, for people

	End
	// Result is what the engine tells of the end; nil when that is not known.
	Result *shared.Result `json:"-"`

	// Session is what the command shares with others.
	Session SessionReport `json:"-"`
	// Review is what took what the command wrote to the workspace; empty where it was the
	// workspace itself.
	Review string `json:"review"`
	// Overlays are the directories inside in which what is written ends with
	// the session. Those that could not be made so are in Degraded, too.
	Overlays []string `json:"overlays"`
	// Discarded is how many files the command has left in its private home, which
	// has ended with it, where its engine counts them: not caches, logs and histories of programs.
	Discarded uint64 `json:"discarded_files"`
	// Ended is how many processes ran still when the command exited, and were ended with it, where its
	// engine counts them.
	Ended uint64 `json:"ended_processes"`
	// LostWorktrees are where the command has made worktrees of the workspace's
	// repositories that have ended with it, and are still recorded.
	LostWorktrees []string `json:"lost_worktrees"`
	// Degraded are the messages of what was held less well than asked.
	Degraded []string `json:"degraded"`
	// Limits says which mechanism held each limit.
	Limits []LimitReport `json:"limits"`
	// Repositories are git repositories that came to be while the command ran, and where
	// Definition.Git is "full", or links lead what git executes to where the command could
	// write, those of which it changed that.
	Repositories []RepositoryReport `json:"repositories"`
	// Instructions are files and directories that came to be while the command
	// ran and that tools of the host take for instructions: editors' tasks, hooks
	// of coding agents, .envrc. See DefaultProtected. Also what is protected and leads elsewhere
	// since, by links that the command could replace. With an engine without mount.nested,
	// also what else is protected and was missing, and all of these that the command changed;
	// of git see Repositories.
	Instructions []string `json:"instructions"`
	// Denials are what its sandbox kept from a command that did not succeed, or that was not
	// found: what its engine and the network's gate tell, and what comes of its own words. Of any
	// other these are what the gate refused, and files that git says it has left as they were.
	Denials []Denial `json:"denials"`
	// Network is what the command has reached and been refused, where its definition lists
	// names or ports.
	Network []NetworkUse `json:"network"`
}

// End is how a command ended, without guessing from an exit status.
type End struct {
	// Outcome is "exited", "signaled", "timed_out" or "failed": the sandbox failed or
	// refused, or there was no such command. It is empty until one of these is known.
	Outcome string `json:"outcome"`
	// ExitCode is nil unless the command exited by itself, Signal and SignalNumber unless one
	// killed it.
	ExitCode     *int    `json:"exit_code"`
	Signal       *string `json:"signal"` // "SIGTERM"
	SignalNumber *int    `json:"signal_number"`
	CoreDumped   bool    `json:"core_dumped"`
	TimedOut     bool    `json:"timed_out"`
	DurationMS   int64   `json:"duration_ms"`
	// Usage is nil where nobody has counted.
	Usage *shared.Usage `json:"usage"`
	// Error is why the sandbox failed or refused; empty where it did not. Attribute is the part
	// of the definition that is at fault, and Hint what to do about it, where they are known.
	Error     string `json:"error"`
	Attribute string `json:"attribute"`
	Hint      string `json:"hint"`
}

// Refused is the Report of a command for which no Host was asked, because of err.
func Refused(sandbox string, err error) Report {
	return complete(Report{Sandbox: sandbox, End: endOf(nil, err)})
}

// endOf tells how a command ended of what its engine and Start or Wait said.
func endOf(result *shared.Result, err error) (e End) {
	if _, ended := errors.AsType[*ExitError](err); err != nil && !ended {
		e.Outcome, e.Error = "failed", err.Error()
		if cause, ok := errors.AsType[*shared.Error](err); ok {
			e.Attribute, e.Hint = cause.Attribute, cause.Hint
		}
	}
	if errors.Is(err, ErrTimedOut) { // before it ran, or its engine hung
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

// DecodeEvent is what an event says in the form in which a Report has it: a Denial, a LimitReport or
// an audit.NetworkUse; nil of an event that says nothing but its message.
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

// complete makes lists of those that are not there, and copies of all that are added to.
func complete(r Report) Report {
	r.Overlays, r.LostWorktrees, r.Degraded, r.Instructions = list(r.Overlays), list(r.LostWorktrees), list(r.Degraded), list(r.Instructions)
	r.Limits, r.Denials, r.Network, r.Repositories = list(r.Limits), list(r.Denials), list(r.Network), list(r.Repositories)
	for i := range r.Repositories {
		made := &r.Repositories[i]
		made.Hooks, made.Keys, made.Pending = list(made.Hooks), list(made.Keys), list(made.Pending)
	}
	return r
}

// list is a copy that is not nil.
func list[T any](of []T) []T { return append([]T{}, of...) }

// RepositoryReport is a git repository that came to be, or in which something came
// to be that git continues.
//
//	type RepositoryReport struct {
//		Path string `json:"path"`
//		// Hooks are executable files in its hooks directory, and Keys the keys of its
//		// configuration that name commands or further configuration: the first 20 of
//		// each. More is how many there are besides.
//		Hooks []string `json:"hooks"`
//		Keys  []string `json:"config_keys"`
//		More  int      `json:"more"`
//		// Alternates says that it takes objects from elsewhere.
//		Alternates bool `json:"alternates"`
//		// Pending are the directories of what it is in the middle of since the command:
//		// a rebase, an am, a cherry-pick or a revert. What they list can name commands.
//		Pending []string `json:"pending"`
//		// Unclear says why it is not known what else git would act on, or write to, in one
//		// line; empty if it is.
//		Unclear string `json:"unclear"`
//		// Superproject is the user's repository whose next git status goes into this one, as a
//		// submodule, and acts on what is reported here. Such reports come first. Empty for others.
//		Superproject string `json:"superproject"`
//		// Existing says that it was there before, and was that submodule already: Pending and
//		// Unclear are told of such a one, and with Definition.Git "full" those of Hooks, Keys and
//		// Alternates that changed.
//		Existing bool `json:"existing"`
//	}
//	func (r *RepositoryReport) Executes() bool
//	func (r *RepositoryReport) String() string
type RepositoryReport = facts.RepositoryReport

// SessionReport says which session a command ran in.
type SessionReport struct {
	Name string // empty for the Host's own
	Dir  string // of the host; empty where nothing is shared
}

// Denial is something that a sandbox kept from its command.
//
//	type Denial struct {
//		Path      string `json:"path"`      // what it is about, as the command sees it; empty where it is no path
//		Host      string `json:"host"`      // the name or address and port, likewise
//		Operation string `json:"operation"` // "read", "write", "execute", "connect", "call" or "use"; an engine may tell others
//		Reason    string `json:"reason"`    // one sentence for people
//		// Attribute of the definition that holds it; empty where none does.
//		Attribute string `json:"attribute"`
//		// At is FILE:LINE of that, where the reader of the configuration has filled it in.
//		At string `json:"at"`
//		// Value is what that attribute would have to be, in HCL, for the command to be let:
//		// "true", `"/data"`. It is empty where nothing is proposed.
//		Value string `json:"-"`
//		// Element says that Attribute is a list, and Value one more element of it.
//		Element bool `json:"-"`
//		// Change is the change of the definition that Value asks for, for people.
//		Change string `json:"change"`
//		// Guess says that the command's words led here and not what was seen: that something is
//		// denied is certain, that the command failed of it is not.
//		Guess bool `json:"guess"`
//	}
type Denial = denial.Denial

// LimitReport says how a limit was held.
type LimitReport struct {
	Limit     string `json:"limit"`
	Mechanism string `json:"mechanism"`
	Hold      string `json:"hold"` // "held", "approximated" or "not held"
}

// Explanation says what running a command would do and why.
type Explanation struct {
	Sandbox  string
	Engine   string
	Source   string // where the engine came from
	Decision string // "sandboxed", "unsandboxed", or "denied" with Asks
	Rule     string
	Reason   string // why, for people
	// Asks says that the command would have to be approved first; all else is
	// then of the run that an approval would allow.
	Asks bool
	// Exposure says what an unsandboxed command has that the definition would not
	// give it, and Sensitive which files of the workspace look as if they held
	// secrets.
	Exposure  []string
	Sensitive []string
	Session   SessionReport
	Spec      shared.Spec
	Command   shared.Command // its Env has the values; show Env instead
	Env       []EnvVar
	Plan      shared.Plan
}

// EnvVar says where a variable of a command's environment comes from.
//
//	type EnvVar struct {
//		Name   string
//		Origin string // "built-in list", `env_passthrough "GO*"`, "env", ...
//	}
type EnvVar = env.Var
