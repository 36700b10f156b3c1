package host

import (
	"context"
	"fmt"
	"time"

	"github.com/sbxhost/sbxhost/internal/approvals"
	"github.com/sbxhost/sbxhost/internal/audit"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/shared"
)

// Approval is an [Approver]'s answer. Any other value than the last three refuses.
type Approval = policy.Approval

const (
	Refuse         = policy.Refused
	ApproveOnce    = policy.ApprovedOnce    // this command, this time
	ApproveSession = policy.ApprovedSession // until ApprovalRequest.SessionTTL is over
	ApproveAlways  = policy.ApprovedAlways
)

// ApprovalMode says what becomes of commands that would run without a sandbox. The zero value asks.
type ApprovalMode = policy.Mode

const (
	ModeAsk    = policy.ModeAsk    // the Approver, about each
	ModeAlways = policy.ModeAlways // they run
	ModeDeny   = policy.ModeDeny   // they do not
)

// Decision says what became of a command, by which rule, and why.
type Decision = policy.Decision

// AuditRecord is a line of the audit log, and NetworkUse a command's connections to one name and port.
type (
	AuditRecord = audit.Record
	NetworkUse  = audit.NetworkUse
)

// ApprovalStore has what was approved; see [OpenApprovals].
type ApprovalStore = approvals.Store

// ApprovalScope is how long what [Cmd.Approve] stores is remembered.
type ApprovalScope = approvals.Scope

// OpenApprovals gives the approvals that are kept in a directory, which is made when there is one.
func OpenApprovals(dir string) *ApprovalStore { return approvals.Open(dir) }

// ApprovalOptions say what becomes of commands that would run without a
// sandbox. The zero value asks the Approver for each, and remembers nothing.
type ApprovalOptions struct {
	Mode ApprovalMode
	// ModeOrigin says who chose the mode, for people.
	ModeOrigin string
	// AllowBypass lets Cmd.NoSandbox ask for a run without the sandbox.
	AllowBypass bool
	// SessionTTL is how long approvals for a session live; zero means
	// DefaultSessionTTL.
	SessionTTL time.Duration
	// Session names the session that approvals belong to; empty means the login
	// session.
	Session string
	// Store has what was approved; nil means that nothing is remembered. Its
	// directory is never writable inside.
	Store *ApprovalStore
}

// DefaultSessionTTL is how long approvals for a session live.
const DefaultSessionTTL = approvals.DefaultTTL

// Approver asks a person whether a command may run without a sandbox. Calls
// may come from several goroutines. Any answer but an approval denies, and so
// does an error; ctx ends when the command is no longer wanted.
type Approver func(ctx context.Context, request ApprovalRequest) (Approval, error)

// ApprovalRequest is what a person has to know before the answer. Of its texts
// none is fit for a terminal as it is.
type ApprovalRequest struct {
	Sandbox   string
	Args      []string
	Script    string   // see Cmd.Script
	Env       []string // names of the variables that are set for this command alone
	Dir       string
	Workspace string
	// Decision says why the command is not sandboxed, what it has without, and
	// which sensitive files are within its reach.
	Decision Decision
	// SessionTTL is how long an approval for the session lives.
	SessionTTL time.Duration
	// Remembers is false where an approval can be for this once alone.
	Remembers bool
	// Warnings are what a person should know of the store, and of what the command
	// cannot have without its sandbox.
	Warnings []string

	environ []string
	defined []string
}

// key is what an approval of the request is for.
func (r *ApprovalRequest) key() approvals.Key {
	return approvals.Key{Argv: r.Args, Script: r.Script, Env: approvals.DigestEnv(r.environ), Dir: r.Dir, Sandbox: r.Sandbox,
		Definition: approvals.DigestEnv(r.defined), Workspace: r.Workspace}
}

// DeniedError says that a command would run without a sandbox and may not.
type DeniedError struct {
	Sandbox  string
	Decision Decision
	// Request is what could have been approved; nil where nothing could.
	Request *ApprovalRequest
	// Err is what kept the command from its sandbox, or the question from being
	// answered; it may be nil.
	Err error
}

func (e *DeniedError) Error() string {
	s := fmt.Sprintf("sandbox %q: %s", e.Sandbox, e.Decision.Reason)
	if e.Decision.Ask {
		why := "nobody was there to ask"
		if e.Err != nil {
			why = e.Err.Error()
		}
		s += "; to run without a sandbox it has to be approved, and " + why
	}
	return s
}

// Unwrap gives shared.ErrDenied, and the cause.
func (e *DeniedError) Unwrap() []error {
	if e.Err == nil {
		return []error{shared.ErrDenied}
	}
	return []error{shared.ErrDenied, e.Err}
}
