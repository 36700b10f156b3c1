package host

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sbxhost/sbxhost/internal/approvals"
	"github.com/sbxhost/sbxhost/internal/audit"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/shared"
)

// Approval is an [Approver]'s answer. Every value except the last three denies.
type Approval = policy.Approval

const (
	Refuse         = policy.Refused
	ApproveOnce    = policy.ApprovedOnce    // this command, once
	ApproveSession = policy.ApprovedSession // until ApprovalRequest.SessionTTL has passed
	ApproveAlways  = policy.ApprovedAlways
)

// ApprovalMode decides about commands that would run without a sandbox. The zero value asks.
type ApprovalMode = policy.Mode

const (
	ModeAsk    = policy.ModeAsk    // ask the Approver about each
	ModeAlways = policy.ModeAlways // run them
	ModeDeny   = policy.ModeDeny   // deny them
)

// Decision is the decision on a command, with the rule and the reason.
//
//	type Decision struct {
//		Outcome Outcome
//		Rule    Rule
//		// Reason says to a person why the command is denied or runs unsandboxed.
//		Reason string
//		// Hint says what helps; it may be empty.
//		Hint string
//		// Ask says that a denied command would run with an approval. Nobody has been asked yet.
//		Ask bool
//		// Exposure lists what an unsandboxed command can reach beyond its definition.
//		Exposure []string
//		// Sensitive are the sensitive files that the command can reach.
//		Sensitive []string
//	}
type Decision = policy.Decision

// NetworkUse counts a command's connections to one name and port.
//
//	type NetworkUse struct {
//		Name        string `json:"name"`           // empty for all further ones
//		Port        uint16 `json:"port,omitempty"` // 0 for a name that was not resolved
//		By          string `json:"by,omitempty"`   // whose connection it is, if it may be another command's: "a command of this session"
//		Allowed     bool   `json:"allowed"`
//		Reason      string `json:"reason,omitempty"` // why it was refused, or why an allowed one failed
//		Connections uint64 `json:"connections"`      // for a refused name, the questions for it
//		Sent        uint64 `json:"sent"`             // bytes, from the command
//		Received    uint64 `json:"received"`         // bytes, to the command
//		DurationMS  int64  `json:"duration_ms"`      // of all together
//	}
type NetworkUse = audit.NetworkUse

// ApprovalScope is how long an approval that [Cmd.Approve] stores is valid.
type ApprovalScope = approvals.Scope

// StoredApprovals lists the valid approvals in an ApprovalOptions.Dir. Each has an ID for
// [RevokeApprovals].
func StoredApprovals(dir string) ([]approvals.Approval, error) { return approvals.Open(dir).List() }

// RevokeApprovals removes the approvals with these IDs from an ApprovalOptions.Dir, and returns them.
func RevokeApprovals(ctx context.Context, dir string, ids ...string) ([]approvals.Approval, error) {
	return approvals.Open(dir).Revoke(ctx, func(a *approvals.Approval) bool { return slices.Contains(ids, a.ID) })
}

// ApprovalOptions decide about commands that would run without a sandbox. The zero value asks the
// Approver for each, and stores nothing.
type ApprovalOptions struct {
	Mode ApprovalMode
	// ModeOrigin tells people who chose the mode.
	ModeOrigin string
	// AllowBypass permits Cmd.NoSandbox.
	AllowBypass bool
	// SessionTTL is how long approvals for a session live; zero means six hours.
	SessionTTL time.Duration
	// Session names the session that approvals belong to; empty means the login session.
	Session string
	// Dir is the absolute path of the directory that stores approvals; empty stores nothing. The
	// first approval creates it. No command can write there.
	Dir string
}

// Approver asks a person whether a command may run without a sandbox. Calls
// may come from several goroutines. Any answer but an approval denies, and so
// does an error; ctx ends when the command is no longer wanted.
type Approver func(ctx context.Context, request ApprovalRequest) (Approval, error)

// ApprovalRequest is what the person must know. Its texts are raw: escape them for a terminal.
type ApprovalRequest struct {
	Sandbox   string
	Args      []string
	Script    string   // see Cmd.Script
	Env       []string // names of the variables that this command alone has
	Dir       string
	Workspace string
	// Decision has the reason for no sandbox, what the command can reach without it, and the
	// sensitive files among that.
	Decision Decision
	// SessionTTL is the lifetime of an approval for the session.
	SessionTTL time.Duration
	// Remembers is false if the approval can only be for this one run.
	Remembers bool
	// Warnings are about the store, and about what the command lacks without its sandbox.
	Warnings []string

	environ []string
	defined []string
}

// key identifies the approval of the request.
func (r *ApprovalRequest) key() approvals.Key {
	return approvals.Key{Argv: r.Args, Script: r.Script, Env: approvals.DigestEnv(r.environ), Dir: r.Dir, Sandbox: r.Sandbox,
		Definition: approvals.DigestEnv(r.defined), Workspace: r.Workspace}
}

// DeniedError is the error for a command that would run without a sandbox and may not.
type DeniedError struct {
	Sandbox  string
	Decision Decision
	// Request is what an approver could approve; nil if approval is impossible.
	Request *ApprovalRequest
	// Err is why the command has no sandbox, or why nobody answered; it may be nil.
	Err error
}

func (e *DeniedError) Error() string {
	if e.Decision.Rule == policy.RuleBypassNotAllowed {
		return fmt.Sprintf("sandbox %q: Cmd.NoSandbox is set, and ApprovalOptions.AllowBypass is not", e.Sandbox)
	}
	s := fmt.Sprintf("sandbox %q: %s", e.Sandbox, e.Decision.Reason)
	if e.Decision.Ask {
		why := "nobody was there to ask"
		if e.Err != nil {
			why = e.Err.Error()
		}
		s += "; a run without a sandbox needs your approval, and " + why
	}
	return s
}

// Refused reports whether the Approver answered no. Otherwise nobody answered, and Decision.Ask is
// set; or no approval can help, because of the mode, Fallback or AllowBypass.
func (e *DeniedError) Refused() bool { return e.Decision.Rule == policy.RuleApprovalRefused }

// Unwrap returns shared.ErrDenied and the cause.
func (e *DeniedError) Unwrap() []error {
	if e.Err == nil {
		return []error{shared.ErrDenied}
	}
	return []error{shared.ErrDenied, e.Err}
}
