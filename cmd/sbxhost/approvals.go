package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sbxhost/sbxhost/approvals"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/inforce"
	"github.com/sbxhost/sbxhost/policy"
)

// deniedHint says what would have helped a command that may not run without a
// sandbox.
func (a *app) deniedHint(e *host.DeniedError, flags *runFlags) error {
	var failure error = plainError{e}
	if e.Decision.Rule == policy.RuleBypassNotAllowed {
		failure = fmt.Errorf("-no-sandbox: %s", e.Decision.Reason)
	}
	hint := e.Decision.Hint
	if e.Decision.Ask && e.Request != nil {
		add := a.approveAhead(e.Request, flags)
		if hint != "" {
			add = hint + "; " + add
		}
		hint = add
	}
	if hint == "" {
		return failure
	}
	return &hinted{failure, hint}
}

// plainError hides what an error wraps from fail, which would give its hint in
// place of ours. It keeps the status.
type plainError struct{ error }

// maxHint is how long a command line may be to be pasted.
const maxHint = 4000

// approveAhead says how to approve what was denied. It is to be pasted into a
// shell, of another login session it may be: a program that is not on a terminal
// is often not in its user's either, so that the scope session would not do.
func (a *app) approveAhead(r *host.ApprovalRequest, flags *runFlags) string {
	args := []string{"-scope", "once"}
	what := "to approve it ahead of its run"
	if config := cmp.Or(flags.config, a.getenv("SBXHOST_CONFIG")); config != "" {
		args = append(args, "-config", config)
	}
	if session := cmp.Or(flags.session, a.getenv("SBXHOST_SESSION")); session != "" {
		args = append(args, "-session", session)
	}
	if flags.workdir != "" {
		args = append(args, "-workdir", flags.workdir)
	}
	if flags.noSandbox {
		args = append(args, "-no-sandbox")
	}
	args = append(args, "-sandbox", r.Sandbox)
	for _, entry := range flags.env {
		if name, _, given := strings.Cut(entry, "="); given {
			entry = name + "=..." // the value may be a secret
			what = "to approve it ahead of its run, with the values in place of the dots"
		}
		args = append(args, "-env", entry)
	}
	switch {
	case flags.scriptFile != "":
		args = append(args, "-c", "@"+flags.scriptFile)
	case r.Script != "":
		args = append(args, "-c", r.Script)
	}
	text := quoteAll(append(append(args, "--"), r.Args...))
	if utf8.RuneCountInString(text) > maxHint {
		return what + ": sbxhost approvals add, with the flags and the command line just as they are"
	}
	return what + ": cd " + shellQuote(a.dir) + " && sbxhost approvals add " + text
}

type approvalJSON struct {
	ID        string          `json:"id"`
	Scope     approvals.Scope `json:"scope"`
	Session   string          `json:"session"` // of the scope session
	Here      bool            `json:"here"`    // it counts in this session
	At        time.Time       `json:"at"`
	LeftMS    int64           `json:"left_ms"` // 0 for the scope always
	Argv      []string        `json:"argv"`
	Script    string          `json:"script"`
	Env       bool            `json:"env"` // variables were set for it
	Dir       string          `json:"dir"`
	Sandbox   string          `json:"sandbox"`
	Workspace string          `json:"workspace"`
	Reason    string          `json:"reason"`
	// What is not UTF-8 has replacement characters above, which other texts have
	// there, too.
	RawArgv   [][]byte `json:"argv_base64,omitempty"`
	RawScript []byte   `json:"script_base64,omitempty"`
}

func (a *app) approvalsList(fs *flag.FlagSet) func() error {
	asJSON := jsonFlag(fs)
	return func() error {
		store, err := a.caller().Store()
		if err != nil {
			return err
		}
		found, err := store.List()
		if err != nil {
			return err
		}
		now, err := approvals.Now()
		if err != nil {
			return err
		}
		session, _ := approvals.LoginSession() // unknown: none is of this one
		list := []approvalJSON{}
		rows := [][]string{{"ID", "SCOPE", "APPROVED", "SANDBOX", "DIRECTORY", "COMMAND"}}
		for _, f := range found {
			j := approvalJSON{ID: f.ID, Scope: f.Scope, Session: f.Session, Here: f.Scope != approvals.Session || f.Session == session,
				At: f.At, Argv: f.Argv, Script: f.Script, Env: f.Env != "", Dir: f.Dir, Sandbox: f.Sandbox, Workspace: f.Workspace, Reason: f.Reason}
			if f.Scope != approvals.Always {
				j.LeftMS = (f.Until - now.Elapsed).Milliseconds()
			}
			if !utf8.ValidString(f.Script) {
				j.RawScript = []byte(f.Script)
			}
			if slices.ContainsFunc(f.Argv, func(arg string) bool { return !utf8.ValidString(arg) }) {
				for _, arg := range f.Argv {
					j.RawArgv = append(j.RawArgv, []byte(arg))
				}
			}
			list = append(list, j)
			rows = append(rows, []string{j.ID, scopeText(&j), inforce.Age(time.Since(j.At)), quote(j.Sandbox), quote(j.Dir), commandText(&j)})
		}
		text := "nothing is approved\n"
		if len(list) > 0 {
			text = table("", rows)
		}
		return a.result(*asJSON, list, text)
	}
}

// scopeText says how far an approval reaches, and how long.
func scopeText(j *approvalJSON) string {
	if j.Scope == approvals.Always {
		return "always"
	}
	text := string(j.Scope)
	if name, ok := strings.CutPrefix(j.Session, "name:"); ok {
		text += " " + quote(name)
	} else if !j.Here {
		text += " elsewhere"
	}
	left := time.Duration(j.LeftMS) * time.Millisecond
	if left >= 48*time.Hour {
		return text + fmt.Sprintf(", %d days left", left/(24*time.Hour))
	}
	return text + ", " + shortTime(max(left, time.Second).Round(time.Second)) + " left"
}

// commandText is a command line of a length that a table is good for.
func commandText(j *approvalJSON) string {
	text := quoteAll(j.Argv)
	if j.Script != "" {
		text = strings.TrimRight("-c "+shellQuote(j.Script)+" "+text, " ")
	}
	if runes := []rune(text); len(runes) > 60 {
		text = string(runes[:57]) + "..."
	}
	if j.Env {
		text += " (with variables)"
	}
	return text
}

// approvalsAdd approves a command ahead of its run.
func (a *app) approvalsAdd(fs *flag.FlagSet) func() error {
	flags := &runFlags{}
	flags.register(fs)
	scopeName := fs.String("scope", string(approvals.Once), "")
	return func() error {
		scope, err := approvals.ParseScope(*scopeName)
		if err != nil {
			return usage(fs, fmt.Errorf("-scope: %w", err))
		}
		if fs.NArg() == 0 && !flags.scripted {
			return usage(fs, errors.New("there is no command"))
		}
		s, h, cmd, err := a.command(context.Background(), flags, fs.Args())
		if err != nil {
			return a.hinted(s, flags, err)
		}
		defer h.Close()
		request, err := cmd.Approve(scope)
		if err != nil {
			return a.hinted(s, flags, err)
		}
		how := string(scope)
		if scope == approvals.Session {
			how = "for the session, " + shortTime(request.SessionTTL)
		}
		return a.print(fmt.Sprintf("approved %s: %s in %s\n", how, commandText(&approvalJSON{Argv: request.Args, Script: request.Script}), quote(request.Dir)))
	}
}

func (a *app) approvalsRevoke(fs *flag.FlagSet) func() error {
	return func() error {
		if fs.NArg() == 0 {
			return usage(fs, errors.New("name an approval by its ID"))
		}
		store, err := a.caller().Store()
		if err != nil {
			return err
		}
		list, err := store.List()
		if err != nil {
			return err
		}
		var ids []string
		for _, prefix := range fs.Args() {
			var matching []string
			for _, f := range list {
				if prefix != "" && strings.HasPrefix(f.ID, prefix) {
					matching = append(matching, f.ID)
				}
			}
			switch len(matching) {
			case 0:
				return &hinted{fmt.Errorf("there is no approval %q; nothing was changed", prefix), "sbxhost approvals list shows what there is"}
			case 1:
				ids = append(ids, matching[0])
			default:
				return fmt.Errorf("%q is the beginning of %d IDs; nothing was changed", prefix, len(matching))
			}
		}
		return a.revoke(store, func(f *approvals.Approval) bool { return slices.Contains(ids, f.ID) })
	}
}

func (a *app) approvalsClear(*flag.FlagSet) func() error {
	return func() error {
		store, err := a.caller().Store()
		if err != nil {
			return err
		}
		return a.revoke(store, func(*approvals.Approval) bool { return true })
	}
}

func (a *app) revoke(store *approvals.Store, matches func(*approvals.Approval) bool) error {
	gone, err := store.Revoke(context.Background(), matches)
	if err != nil {
		return err
	}
	return a.print(plural(len(gone), "approval") + " taken back\n")
}
