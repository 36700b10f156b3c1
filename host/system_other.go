//go:build !unix

package host

import (
	"cmp"
	"context"
	"io"
	"os"
	"runtime"

	"github.com/sbxhost/sbxhost/internal/approvals"
	"github.com/sbxhost/sbxhost/internal/review"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

// errSystem is the error of everything that needs an engine. The protocol passes a command's files
// over a unix socket, and the rules for hidden files depend on unix owners.
var errSystem error = &shared.Error{Kind: shared.ErrUnusable, Attribute: "engine", Message: noEngine}

const noEngine = "no engine isolates on " + runtime.GOOS

type (
	hostParts struct{}
	run       struct{}
)

func (h *Host) prepare() {}

func (h *Host) credentials() map[string]Credential { return h.options.Credentials }

func (h *Host) writableDir(string) string { return "" } // launch accepts no program here

func (h *Host) open() error { return nil }

// Check reports that no engine works on this system.
func (h *Host) Check(ctx context.Context, name string) error {
	return h.Command(ctx, name).Start()
}

// Close ends the use of Options.Logger.
func (h *Host) Close() error {
	h.logging.Close(releaseTime)
	return nil
}

// Renew fails: no command runs.
func (h *Host) Renew(map[string]Credential, []string) error { return errSystem }

// Root is empty: New does not look for a workspace.
func (h *Host) Root() string { return "" }

// Workspace contains nothing: no command sees paths.
func (h *Host) Workspace() *workspace.Workspace { return &workspace.Workspace{} }

// EngineInfo returns a built-in engine's description of itself.
func (h *Host) EngineInfo(_ context.Context, name string) (shared.Info, error) {
	if info, ok := h.engines.Info(h.engines.Resolve(name)); ok {
		return info, nil
	}
	return shared.Info{}, errSystem
}

// EngineProbe reports that no engine works on this system.
func (h *Host) EngineProbe(context.Context, string) (shared.Probe, error) {
	return shared.Probe{Reason: noEngine, Fix: "use Linux or macOS", Unusable: true}, nil
}

// Start fails with shared.ErrUnavailable: no engine isolates on this system.
func (c *Cmd) Start() error {
	t, err := c.target()
	return cmp.Or(err, error(&SandboxError{Sandbox: t.Name, Err: errSystem}))
}

// These methods fail like Start.

func (c *Cmd) Explain() (*Explanation, error)             { return nil, c.Start() }
func (c *Cmd) Run() error                                 { return c.Start() }
func (c *Cmd) Wait() error                                { return errSystem }
func (c *Cmd) Denied(shared.TracedCall) ([]Denial, error) { return nil, errSystem }
func (c *Cmd) Signal(os.Signal) error                     { return errSystem }
func (c *Cmd) Resize(TerminalSize) error                  { return errSystem }
func (c *Cmd) Report() Report                             { return Refused(c.sandbox, errSystem) }
func (c *Cmd) Output() ([]byte, error)                    { return nil, c.Start() }
func (c *Cmd) CombinedOutput() ([]byte, error)            { return nil, c.Start() }
func (c *Cmd) StdinPipe() (io.WriteCloser, error)         { return nil, errSystem }
func (c *Cmd) StdoutPipe() (io.ReadCloser, error)         { return nil, errSystem }
func (c *Cmd) StderrPipe() (io.ReadCloser, error)         { return nil, errSystem }

func (c *Cmd) Approve(ApprovalScope) (ApprovalRequest, error) {
	return ApprovalRequest{}, errSystem
}

// Findings returns nothing.
func (h *Host) Findings() ([]approvals.Finding, error) { return nil, nil }

// AcknowledgeFindings does nothing.
func (h *Host) AcknowledgeFindings(context.Context) ([]approvals.Finding, error) { return nil, nil }

// Sessions returns nothing.
func Sessions(context.Context, []string, string) ([]SessionInfo, error) { return nil, nil }

// RemoveSession finds no session.
func RemoveSession(_ []string, _, name string) error {
	return &os.PathError{Op: "remove", Path: name, Err: os.ErrNotExist}
}

// These methods do nothing, because nothing runs.

func (h *Host) Processes() ([]ProcessInfo, error)  { return nil, nil }
func (h *Host) HasProcesses() bool                 { return false }
func (h *Host) EndProcesses(context.Context) error { return nil }

// A Review is what commands wrote to a workspace. There are none here.
type Review struct{ *review.Review }

func (r *Review) Changes(context.Context) (*ReviewSet, error) { return nil, errSystem }

func (r *Review) Diff(context.Context, io.Writer, *ReviewSet, []string) ([]ReviewChange, error) {
	return nil, errSystem
}

func (h *Host) Reviews() ([]ReviewInfo, error)                      { return nil, nil }
func (h *Host) OpenReview(context.Context, string) (*Review, error) { return nil, errSystem }

func (h *Host) UndoReview(context.Context) (name string, changed []string, err error) {
	return "", nil, errSystem
}

// WritableDirs returns nothing: no command writes.
func WritableDirs(Options) []string { return nil }
