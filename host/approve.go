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

// AuditRecord is a line of the audit log.
//
//	type AuditRecord struct {
//		Version int       `json:"version"` // 1
//		Time    time.Time `json:"time"`    // zero: when the line is written
//		Event   Event     `json:"event"`
//		// Command identifies the command: all its lines have this value, and no other line has it.
//		Command string `json:"command"`
//		PID     int    `json:"pid"` // of the host
//		UID     int    `json:"uid"`
//
//		Sandbox   string   `json:"sandbox"`
//		Engine    string   `json:"engine"`                   // as it calls itself
//		Program   *Program `json:"engine_program,omitempty"` // nil: the host's own
//		Workspace string   `json:"workspace"`
//
//		// For EventDecision.
//		Dir      string   `json:"dir,omitempty"`
//		Argv     []string `json:"argv,omitempty"`
//		Script   string   `json:"script,omitempty"`
//		Decision string   `json:"decision,omitempty"` // "sandboxed", "unsandboxed" or "denied"
//		Rule     string   `json:"rule,omitempty"`
//		Reason   string   `json:"reason,omitempty"`
//		// Raw has all arguments, in base64, if one of them is not UTF-8. Argv then shows them with
//		// replacement characters.
//		Raw [][]byte `json:"argv_base64,omitempty"`
//		// RawScript and RawDir are the script and the directory, each if it is not UTF-8.
//		RawScript []byte `json:"script_base64,omitempty"`
//		RawDir    []byte `json:"dir_base64,omitempty"`
//		// Shortened says that the record has only a part of the arguments or of the script.
//		Shortened bool `json:"shortened,omitempty"`
//
//		// For EventEnd.
//		Outcome    string `json:"outcome,omitempty"` // "exited", "signaled", "timed_out" or "failed"
//		ExitCode   *int   `json:"exit_code,omitempty"`
//		Signal     int    `json:"signal,omitempty"`
//		DurationMS *int64 `json:"duration_ms,omitempty"` // of a command that ran; 0 is less than a millisecond
//		Error      string `json:"error,omitempty"`
//		// Status is set with Error. It is the exit status of sbxhost exec: 127 for a missing command,
//		// 126 for one that cannot be executed, 125 for a sandbox that failed.
//		Status int `json:"status,omitempty"`
//		// Network lists the connections of the command, made and refused, if its definition lists names
//		// or ports. EventSession also has it.
//		Network []NetworkUse `json:"network,omitempty"`
//	}
type AuditRecord = audit.Record

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

// ApprovalStore stores approvals; see [OpenApprovals].
//
//	type ApprovalStore struct{ ... }
//	func (s *ApprovalStore) FirstToday(ctx context.Context, what string) (bool, error)
//	func (s *ApprovalStore) AddFindings(ctx context.Context, made []Finding, still func(*Finding) bool) error
//	func (s *ApprovalStore) Findings() ([]Finding, error)
//	func (s *ApprovalStore) AcknowledgeFindings(ctx context.Context, seen []Finding) error
//	func (s *ApprovalStore) Dir() string
//	func (s *ApprovalStore) Find(ctx context.Context, key Key, session string) (*Approval, error)
//	func (s *ApprovalStore) Peek(key Key, session string) (*Approval, error)
//	func (s *ApprovalStore) Add(ctx context.Context, key Key, scope Scope, session string, ttl time.Duration, reason string) (*Approval, error)
//	func (s *ApprovalStore) List() ([]Approval, error)
//	func (s *ApprovalStore) Revoke(ctx context.Context, matches func(*Approval) bool) ([]Approval, error)
//	func (s *ApprovalStore) Trusts(path string, content []byte) (bool, *TrustedFile, error)
//	func (s *ApprovalStore) AddTrust(ctx context.Context, path string, content []byte) error
//	func (s *ApprovalStore) RevokeTrust(ctx context.Context, path string) (bool, error)
//	func (s *ApprovalStore) TrustList() ([]TrustedFile, error)
type ApprovalStore = approvals.Store

// ApprovalScope is how long an approval that [Cmd.Approve] stores is valid.
type ApprovalScope = approvals.Scope

// OpenApprovals opens the store in a directory. The store creates the directory with the first
// approval.
func OpenApprovals(dir string) *ApprovalStore { return approvals.Open(dir) }

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
	// Store stores approvals; nil stores nothing. Its directory is never writable inside.
	Store *ApprovalStore
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
