//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/audit"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/hostpath"
)

// result is what -result writes: how a command ended, without guessing from an
// exit status. Fields may be added; version changes when one changes its
// meaning.
type result struct {
	Version  int    `json:"version"` // 1
	Sandbox  string `json:"sandbox"`
	Engine   string `json:"engine"`   // as it calls itself; empty when none was reached
	Decision string `json:"decision"` // "sandboxed", "unsandboxed", "denied" or empty
	Rule     string `json:"rule"`     // which rule decided
	Reason   string `json:"reason"`   // why, for people

	// Program is what was executed as the engine; null for one of sbxhost's own.
	Program *programResult `json:"engine_program"`

	// Outcome is "exited", "signaled", "timed_out" or "failed": the sandbox
	// failed or refused, or there was no such command.
	Outcome string `json:"outcome"`
	// Status is what sbxhost itself exits with.
	Status int `json:"status"`
	// ExitCode is the command's; null unless it exited by itself.
	ExitCode *int `json:"exit_code"`
	// Signal and SignalNumber are what killed the command; null unless one did.
	Signal       *string `json:"signal"`
	SignalNumber *int    `json:"signal_number"`
	CoreDumped   bool    `json:"core_dumped"`
	TimedOut     bool    `json:"timed_out"`
	DurationMS   int64   `json:"duration_ms"`

	// Session is the name of the session, empty for one that has none.
	Session string `json:"session"`
	// Review is what has what the command wrote to the workspace; empty where that has it.
	Review string `json:"review"`
	// Overlays are where what the command wrote ends with the session.
	Overlays []string `json:"overlays"`

	// Discarded is how many files the command has left in its private home, which
	// has ended with it.
	Discarded uint64 `json:"discarded_files"`
	// LostWorktrees are where the command has made worktrees that have ended with
	// it, and are still on their repository's list.
	LostWorktrees []string `json:"lost_worktrees"`

	Degraded []string      `json:"degraded"`
	Limits   []limitResult `json:"limits"`
	// Repositories are git repositories that came to be while the command ran.
	Repositories []repositoryResult `json:"repositories"`
	// Instructions are what came to be meanwhile that tools of the host take for
	// instructions, such as .envrc and .mcp.json: the first 32.
	Instructions []string `json:"instructions"`
	// Denials are what the sandbox kept from a command that did not succeed, what is certain
	// first.
	Denials []denialResult `json:"denials"`
	// Network is what the command has reached and been refused, where the definition lists
	// names or ports.
	Network []audit.NetworkUse `json:"network"`
	Error   string             `json:"error"` // why the sandbox failed; empty where it did not
}

// programResult is an engine's executable.
type programResult struct {
	Name   string `json:"name"` // by which definitions call the engine
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// limitResult says how one limit was held.
type limitResult struct {
	Limit     string `json:"limit"`
	Mechanism string `json:"mechanism"`
	Hold      string `json:"hold"` // "held", "approximated" or "not held"
}

// repositoryResult is a repository that a command made, or in which it began what
// git continues, and what a git that is run in it, outside of a sandbox, would
// execute or follow.
type repositoryResult struct {
	Path       string   `json:"path"`
	Hooks      []string `json:"hooks"`
	Keys       []string `json:"config_keys"`
	More       int      `json:"more"` // hooks and keys besides
	Alternates bool     `json:"alternates"`
	Pending    []string `json:"pending"`  // directories of a rebase, an am, a cherry-pick or a revert that began or changed
	Unclear    string   `json:"unclear"`  // why it is not known what else there is; empty if it is
	Existing   bool     `json:"existing"` // it was there before: hooks and keys are those that changed
}

// denialResult is one of them. Fields that say nothing are empty.
type denialResult struct {
	Path      string `json:"path"`      // as the command sees it
	Host      string `json:"host"`      // a name or an address, with the port if that is known
	Operation string `json:"operation"` // "read", "write", "execute", "connect", "call", "use", or an engine's own word
	Reason    string `json:"reason"`    // for people
	Attribute string `json:"attribute"` // of the definition, that holds it
	At        string `json:"at"`        // FILE:LINE of that
	Change    string `json:"change"`    // of the definition, that would allow it
	Guess     bool   `json:"guess"`     // whether the command failed of it is not known
}

// newResult tells how a command ended from what its Cmd says.
func newResult(sandbox string, report host.Report, status int, err error) *result {
	r := &result{
		Version: 1, Sandbox: sandbox, Engine: report.Engine, Decision: report.Decision, Rule: report.Rule, Reason: report.Reason,
		Status: status, Session: report.Session.Name, Review: report.Review, Overlays: append([]string{}, report.Overlays...), Discarded: report.Discarded,
		LostWorktrees: append([]string{}, report.LostWorktrees...),
		Degraded:      report.Degraded, Limits: []limitResult{}, Repositories: []repositoryResult{},
		Instructions: append([]string{}, report.Instructions...), Denials: []denialResult{},
		Network: append([]audit.NetworkUse{}, report.Network...),
	}
	if p := report.EngineProgram; p != nil {
		r.Program = new(programResult(*p))
	}
	if r.Degraded == nil {
		r.Degraded = []string{}
	}
	for _, l := range report.Limits {
		r.Limits = append(r.Limits, limitResult(l))
	}
	for _, made := range report.Repositories {
		r.Repositories = append(r.Repositories, repositoryResult{
			Path: made.Path, Hooks: append([]string{}, made.Hooks...), Keys: append([]string{}, made.Keys...), More: made.More,
			Alternates: made.Alternates, Pending: append([]string{}, made.Pending...), Unclear: made.Unclear, Existing: made.Existing})
	}
	for _, d := range report.Denials {
		r.Denials = append(r.Denials, denialResult{Path: d.Path, Host: d.Host, Operation: d.Operation, Reason: d.Reason, Attribute: d.Attribute, Change: d.Change(), Guess: d.Guess})
	}
	if _, ended := errors.AsType[*host.ExitError](err); err != nil && !ended {
		r.Error = err.Error()
	}
	if report.Result == nil || r.Error != "" {
		r.Outcome = "failed"
	}
	if errors.Is(err, host.ErrTimedOut) { // before it ran, or its engine hung
		r.Outcome, r.TimedOut = "timed_out", true
	}
	if report.Result == nil {
		return r
	}
	end := report.Result
	r.DurationMS, r.TimedOut, r.CoreDumped = end.Duration.Milliseconds(), end.TimedOut, end.Status.CoreDumped
	outcome := "exited"
	if end.Status.Signal != 0 {
		outcome = "signaled"
		name, number := signalName(end.Status.Signal), int(end.Status.Signal)
		r.Signal, r.SignalNumber = &name, &number
	} else {
		r.ExitCode = &end.Status.Code
	}
	if end.TimedOut {
		outcome = "timed_out"
	}
	if r.Outcome == "" {
		r.Outcome = outcome
	}
	return r
}

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(sig)) // a real-time one
}

// resultFile is where -result goes. Its directory is held open from before the
// command runs, so that the command cannot lead the result elsewhere.
type resultFile struct {
	dir  *hostpath.Dir
	name string
}

// openResult finds out, by doing, that a result can be written, and removes an
// earlier one: were we killed, it would be taken for this run's. No symlink in the
// directories that writable gives is followed on the way.
func openResult(path, cwd string, writable func() []string) (_ *resultFile, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("-result: %w", err)
		}
	}()
	if path[len(path)-1] == filepath.Separator {
		return nil, fmt.Errorf("%s names a directory", quote(path))
	}
	dir, err := hostpath.OpenDir(cwd, filepath.Dir(path), writable)
	if err != nil {
		return nil, err
	}
	r := &resultFile{dir: dir, name: filepath.Base(path)}
	if err := r.try(path); err != nil {
		dir.Close()
		return nil, err
	}
	return r, nil
}

func (r *resultFile) try(path string) error {
	switch st, err := r.dir.Lstat(r.name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%s is not a regular file", quote(path))
	default:
		if err := r.dir.Remove(r.name); err != nil {
			return err
		}
	}
	// The real name first: too long a one, say, is found here.
	f, err := r.dir.Create(r.name, 0o644)
	if err != nil {
		return err
	}
	f.Close()
	f, temp, err := r.dir.Temp(0o644)
	if err != nil {
		return errors.Join(err, r.dir.Remove(r.name))
	}
	f.Close()
	return errors.Join(r.dir.Remove(temp), r.dir.Remove(r.name))
}

// write puts the result in place, whole or not at all.
func (r *resultFile) write(res *result) (err error) {
	defer r.dir.Close()
	text, err := json.MarshalIndent(res, "", "  ")
	if err == nil {
		err = putFile(r.dir, r.name, append(text, '\n'), 0o644, nil)
	}
	if err != nil {
		return fmt.Errorf("-result: %w", err)
	}
	return nil
}
