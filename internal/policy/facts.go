package policy

import (
	"fmt"

	"github.com/sbxhost/sbxhost/shared"
)

// Facts are all that a decision depends on.
type Facts struct {
	// Engine is the name of the engine that the definition leads to, and Named
	// says that the definition names it: "auto" does not.
	Engine      string
	EngineNamed bool
	State       EngineState
	// Reason and Fix say why an unavailable engine is that, and what helps.
	Reason, Fix string

	// Losses are what of the definition the engine does not hold.
	Losses []shared.Loss

	// Filesystem and Network are what the definition asks for. An unsandboxed
	// command has the host's, which the decision says.
	Filesystem shared.Filesystem
	Network    shared.NetworkMode

	Fallback Fallback

	// Bypass says that this command was asked to run without its sandbox, and
	// AllowBypass that the definition's user lets that be asked for.
	Bypass, AllowBypass bool

	Mode Mode
	// ModeOrigin says who chose the mode, for people: "approvals.mode" and its
	// line, or a variable's name. Empty means nobody.
	ModeOrigin string

	// Approval is what is stored for exactly this command, or what the person
	// who was asked has answered.
	Approval Approval

	// Sensitive are files within the command's reach that look as if they held
	// secrets.
	Sensitive []string
}

// EngineState is what is known of an engine here and now.
type EngineState int

const (
	// EngineUnknown is nothing at all.
	EngineUnknown EngineState = iota
	// EngineIsolates is an engine that isolates and that nothing is known
	// against.
	EngineIsolates
	// EngineUnavailable is one that cannot run here.
	EngineUnavailable
	// EngineUnconfined is one that runs commands as they are.
	EngineUnconfined
)

// Mode says what becomes of commands that would run unsandboxed. The zero value
// is ModeAsk.
type Mode int

const (
	ModeAsk    Mode = iota // a person approves each
	ModeAlways             // they run
	ModeDeny               // they do not
)

func (m Mode) String() string {
	switch m {
	case ModeAsk:
		return "ask"
	case ModeAlways:
		return "always"
	case ModeDeny:
		return "deny"
	}
	return fmt.Sprintf("mode(%d)", int(m))
}

// ParseMode is the inverse of Mode.String; "" is ModeAsk.
func ParseMode(s string) (Mode, error) {
	switch s {
	case "", "ask":
		return ModeAsk, nil
	case "always":
		return ModeAlways, nil
	case "deny":
		return ModeDeny, nil
	}
	return ModeDeny, fmt.Errorf(`%q is none of "ask", "always" and "deny"`, s)
}

// Fallback says what happens when the engine cannot run here. What is none of these denies.
type Fallback string

const (
	FallbackDefault Fallback = "" // approve for auto, deny for a named engine
	FallbackDeny    Fallback = "deny"
	FallbackApprove Fallback = "approve" // the command runs unsandboxed, if approved
)

// Approval is a person's word on one command.
type Approval int

const (
	NoApproval      Approval = iota // nobody was asked yet
	Refused                         // the answer was no
	ApprovedOnce                    // this time
	ApprovedSession                 // for as long as the session's approvals live
	ApprovedAlways
)
