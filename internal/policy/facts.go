package policy

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sbxhost/sbxhost/shared"
)

// Facts are everything that a decision depends on.
type Facts struct {
	// Engine is the name of the definition's engine. Named says that the definition itself names
	// it, which "auto" does not.
	Engine      string
	EngineNamed bool
	State       EngineState
	// Reason and Fix say why the engine is unavailable, and what helps.
	Reason, Fix string

	// Losses are the settings of the definition that the engine does not enforce.
	Losses []shared.Loss

	// Filesystem and Network are the definition's. An unsandboxed command has those of the host,
	// and the decision says so.
	Filesystem shared.Filesystem
	Network    shared.NetworkMode

	Fallback Fallback

	// Bypass says that the caller asked to run this command without its sandbox. AllowBypass says
	// that the definition's user permits such requests.
	Bypass, AllowBypass bool

	Mode Mode
	// ModeOrigin says to people who chose the mode: "approvals.mode" and its line, or a variable's
	// name. Empty means nobody.
	ModeOrigin string

	// Approval is the stored approval of exactly this command, or a person's answer.
	Approval Approval

	// Sensitive are files in the command's reach that look as if they contain secrets.
	Sensitive []string
}

// EngineState says whether an engine works here now.
type EngineState int

const (
	// EngineUnknown means that nothing is known.
	EngineUnknown EngineState = iota
	// EngineIsolates is an engine that isolates, with no known problem.
	EngineIsolates
	// EngineUnavailable is an engine that cannot run here.
	EngineUnavailable
	// EngineUnconfined is an engine that does not isolate commands.
	EngineUnconfined
)

// Mode says what happens to commands that would run unsandboxed. The zero value is ModeAsk.
type Mode string

const (
	ModeAsk    Mode = ""       // a person must approve each
	ModeAlways Mode = "always" // they run
	ModeDeny   Mode = "deny"   // they do not run
)

func (m Mode) String() string { return cmp.Or(string(m), "ask") }

func (m Mode) known() bool { return slices.Contains([]Mode{ModeAsk, ModeAlways, ModeDeny}, m) }

// ParseMode is the inverse of Mode.String; "" is ModeAsk.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); {
	case s == "ask":
		return ModeAsk, nil
	case m.known():
		return m, nil
	}
	return ModeDeny, fmt.Errorf(`%q is none of "ask", "always" and "deny"`, s)
}

// Fallback says what happens if the engine cannot run here. An unknown value denies.
type Fallback string

const (
	FallbackDefault Fallback = "" // approve for auto, deny for a named engine
	FallbackDeny    Fallback = "deny"
	FallbackApprove Fallback = "approve" // the command runs unsandboxed, if approved
)

// Approval is a person's decision about one command. An unknown value refuses. The text of an
// approval is the scope with which package approvals stores it.
type Approval string

const (
	NoApproval      Approval = ""        // nobody was asked yet
	Refused         Approval = "refused" // the answer was no
	ApprovedOnce    Approval = "once"    // this time
	ApprovedSession Approval = "session" // for as long as the session's approvals are valid
	ApprovedAlways  Approval = "always"
)
