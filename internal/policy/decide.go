package policy

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/sbxhost/sbxhost/shared"
)

// Outcome is the decision about a command. The zero value denies.
type Outcome string

const (
	Denied      Outcome = ""
	Sandboxed   Outcome = "sandboxed"
	Unsandboxed Outcome = "unsandboxed"
)

func (o Outcome) String() string { return cmp.Or(string(o), "denied") }

// ErrAsks is the error for a command that needs an approval, for a caller whom nobody can ask.
// Nothing was run or logged.
var ErrAsks = errors.New("it would have to be approved")

// Rule names what decided. Rules are part of the output for machines: their
// names stay.
type Rule string

const (
	RuleEngineIsolates   Rule = "engine-isolates"         // sandboxed: the engine holds all that is asked
	RuleEngineNamed      Rule = "engine-named-unconfined" // unsandboxed: the definition says so
	RuleModeAlways       Rule = "mode-always"             // unsandboxed
	RuleApprovedOnce     Rule = "approved-once"           // unsandboxed
	RuleApprovedSession  Rule = "approved-session"        // unsandboxed
	RuleApprovedAlways   Rule = "approved-always"         // unsandboxed
	RuleApprovalNeeded   Rule = "approval-needed"         // denied until somebody approves
	RuleApprovalRefused  Rule = "approval-refused"        // denied
	RuleModeDeny         Rule = "mode-deny"               // denied
	RuleFallbackDeny     Rule = "fallback-deny"           // denied: the engine cannot run here
	RuleBypassNotAllowed Rule = "bypass-not-allowed"      // denied
	RuleFeatureMissing   Rule = "feature-missing"         // denied: the engine cannot hold what is asked
	RuleUnconfinedAuto   Rule = "unconfined-not-named"    // denied: nobody asked for an engine that does not isolate
	RuleNoEngine         Rule = "no-engine"               // denied: nothing is known of the engine
	RuleInvalid          Rule = "invalid-facts"           // denied: an unknown mode
	RuleNotStarted       Rule = "not-started"             // denied: by no rule; the command failed before it could run
)

// Decision says whether a command may run, how, and why. The zero value denies.
type Decision struct {
	Outcome Outcome
	Rule    Rule
	// Reason says to a person why the command is denied or runs unsandboxed.
	Reason string
	// Hint says what helps; it may be empty.
	Hint string
	// Ask says that a denied command would run with an approval. Nobody has been asked yet.
	Ask bool
	// Exposure lists what an unsandboxed command can reach beyond its definition.
	Exposure []string
	// Sensitive are the sensitive files that the command can reach.
	Sensitive []string
}

// Decide is the policy.
func Decide(f Facts) Decision {
	d := decide(f)
	if d.Outcome == Unsandboxed || d.Ask {
		d.Exposure = exposure(f)
	}
	if d.Outcome != Denied || d.Ask {
		d.Sensitive = f.Sensitive
	}
	return d
}

func decide(f Facts) Decision {
	if !f.Mode.known() {
		return deny(RuleInvalid, fmt.Sprintf("there is no mode %q", string(f.Mode)), `the modes are "", which asks, "always" and "deny"`)
	}
	if f.Bypass {
		if !f.AllowBypass {
			return deny(RuleBypassNotAllowed, "the configuration does not allow a run without a sandbox",
				"approvals { allow_bypass = true } allows it; you must then approve the command")
		}
		return approval(f, "the caller asked to skip the sandbox", "")
	}
	refused, _ := errors.AsType[*shared.Error](shared.Refused(f.Engine, f.Losses))
	switch f.State {
	case EngineIsolates:
		if refused != nil {
			return deny(RuleFeatureMissing, refused.Message, refused.Hint)
		}
		return Decision{Outcome: Sandboxed, Rule: RuleEngineIsolates, Reason: fmt.Sprintf("engine %q isolates it", f.Engine)}
	case EngineUnconfined:
		switch {
		case !f.EngineNamed:
			return deny(RuleUnconfinedAuto, fmt.Sprintf("engine %q does not isolate commands", f.Engine),
				fmt.Sprintf("name it, engine = %q, if that is meant", f.Engine))
		case f.Mode == ModeDeny:
			return modeDeny(f, fmt.Sprintf("engine %q does not isolate commands", f.Engine))
		case refused != nil:
			return deny(RuleFeatureMissing, refused.Message, refused.Hint)
		}
		return Decision{Outcome: Unsandboxed, Rule: RuleEngineNamed,
			Reason: fmt.Sprintf("the definition names engine %q, which does not isolate commands", f.Engine)}
	case EngineUnavailable:
		reason := fmt.Sprintf("engine %q does not work here", f.Engine)
		if f.Reason != "" {
			reason += ": " + f.Reason
		}
		if f.Fallback == FallbackApprove || f.Fallback == FallbackDefault && !f.EngineNamed {
			return approval(f, reason, f.Fix)
		}
		return deny(RuleFallbackDeny, reason, f.Fix)
	}
	return deny(RuleNoEngine, fmt.Sprintf("nothing is known of an engine %q", f.Engine), "")
}

func deny(rule Rule, reason, hint string) Decision {
	return Decision{Rule: rule, Reason: reason, Hint: hint}
}

func modeDeny(f Facts, why string) Decision {
	by := cmp.Or(f.ModeOrigin, "the mode of approvals")
	return deny(RuleModeDeny, fmt.Sprintf("%s, and %s = %q forbids running anything without a sandbox", why, by, ModeDeny), f.Fix)
}

// approval decides about a command that would run unsandboxed; why gives the reason.
func approval(f Facts, why, hint string) Decision {
	switch f.Mode {
	case ModeDeny:
		return modeDeny(f, why)
	case ModeAlways:
		return Decision{Outcome: Unsandboxed, Rule: RuleModeAlways, Reason: why}
	}
	switch f.Approval {
	case NoApproval:
		return Decision{Rule: RuleApprovalNeeded, Reason: why, Hint: hint, Ask: true}
	case ApprovedOnce, ApprovedSession, ApprovedAlways:
		return Decision{Outcome: Unsandboxed, Rule: Rule("approved-" + f.Approval), Reason: why}
	}
	return deny(RuleApprovalRefused, why+", and running without a sandbox was not approved", hint)
}

// exposure lists what a command gains if it runs unsandboxed.
func exposure(f Facts) []string {
	gains := []string{"every file of yours, to read and to write"}
	if f.Filesystem == shared.FilesystemHost {
		gains[0] = "every file of yours to write, which the definition shows read-only"
	}
	gains = append(gains, "your processes")
	switch f.Network {
	case shared.NetworkNone:
		gains = append(gains, "the network, which the definition denies")
	case shared.NetworkNames:
		gains = append(gains, "all of the network, of which the definition lists names")
	}
	return gains
}
