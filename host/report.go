package host

import (
	"github.com/sbxhost/sbxhost/audit"
	"github.com/sbxhost/sbxhost/host/denial"
	"github.com/sbxhost/sbxhost/host/env"
	"github.com/sbxhost/sbxhost/host/facts"
	"github.com/sbxhost/sbxhost/shared"
)

// Report tells how a command was run. It is complete once Wait has returned.
type Report struct {
	Sandbox string
	Engine  string // as it calls itself
	// EngineProgram is what was executed as that; nil for an engine that is part of this
	// program or was installed with it.
	EngineProgram *EngineProgram
	Decision      string // "sandboxed", "unsandboxed" or "denied"; empty: it did not come to that
	Rule          string // which rule decided
	// Session is what the command shares with others.
	Session SessionReport
	// Overlays are the directories inside in which what is written ends with
	// the session. Those that could not be made so are in Degraded, too.
	Overlays []string
	// Review is what took what the command wrote to the workspace; empty where it was the
	// workspace itself.
	Review string
	Reason string // why, for people
	// Result is how the command ended; nil when that is not known.
	Result *shared.Result
	// Degraded are the messages of what was held less well than asked.
	Degraded []string
	// Denials are what its sandbox kept from a command that did not succeed, or that was not
	// found: what its engine and the network's gate tell, and what comes of its own words.
	Denials []Denial
	// Discarded is how many files the command has left in its private home, which
	// has ended with it, where its engine counts them.
	Discarded uint64
	// LostWorktrees are where the command has made worktrees of the workspace's
	// repositories that have ended with it, and are still recorded.
	LostWorktrees []string
	// Limits says which mechanism held each limit.
	Limits []LimitReport
	// Network is what the command has reached and been refused, where its definition lists
	// names or ports.
	Network []audit.NetworkUse
	// Repositories are git repositories that came to be while the command ran, and
	// where Definition.Git is "full" those of which it changed what git executes.
	Repositories []RepositoryReport
	// Instructions are files and directories that came to be while the command
	// ran and that tools of the host take for instructions: editors' tasks, hooks
	// of coding agents, .envrc. See DefaultProtected.
	Instructions []string
}

// RepositoryReport is a git repository that came to be, or in which something came
// to be that git continues.
type RepositoryReport = facts.RepositoryReport

// SessionReport says which session a command ran in.
type SessionReport struct {
	Name string // empty for the Host's own
	Dir  string // of the host; empty where nothing is shared
}

// Denial is something that a sandbox kept from its command.
type Denial = denial.Denial

// LimitReport says how a limit was held.
type LimitReport struct {
	Limit, Mechanism, Hold string
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
	// Exposed says what an unsandboxed command has that the definition would not
	// give it, and Sensitive which files of the workspace look as if they held
	// secrets.
	Exposed   []string
	Sensitive []string
	Session   SessionReport
	Spec      shared.Spec
	Command   shared.Command // its Env has the values; show Env instead
	Env       []EnvVar
	Plan      shared.Plan
}

// EnvVar says where a variable of a command's environment comes from.
type EnvVar = env.Var
