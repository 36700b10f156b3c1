package host

import (
	"github.com/sbxhost/sbxhost/host/env"
	"github.com/sbxhost/sbxhost/shared"
)

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
