// Package consent has the commands for approvals and trusted configurations.
package consent

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/internal/approvals"
)

// ApprovalJSON is an approval, as -json prints it. Two texts with bytes that are not UTF-8 can look the
// same; their IDs differ.
type ApprovalJSON struct {
	ID        string          `json:"id"`
	Scope     approvals.Scope `json:"scope"`
	Session   string          `json:"session"` // only for the scope session
	Here      bool            `json:"here"`    // valid in this session
	At        time.Time       `json:"at"`
	LeftMS    int64           `json:"left_ms"` // milliseconds; 0 for the scope always
	Argv      []string        `json:"argv"`
	Script    string          `json:"script"`
	Env       bool            `json:"env"` // the request set variables
	Dir       string          `json:"dir"`
	Sandbox   string          `json:"sandbox"`
	Workspace string          `json:"workspace"`
	Reason    string          `json:"reason"`
}

func List(a *cli.App, fs *flag.FlagSet) func() error {
	asJSON := cli.JSONFlag(fs)
	return func() error {
		store, err := a.Store()
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
		session, _ := approvals.LoginSession() // if unknown, no approval is of this session
		list := []ApprovalJSON{}
		rows := [][]string{{"ID", "SCOPE", "APPROVED", "SANDBOX", "DIRECTORY", "COMMAND"}}
		for _, f := range found {
			j := ApprovalJSON{ID: f.ID, Scope: f.Scope, Session: f.Session, Here: f.Scope != approvals.Session || f.Session == session,
				At: f.At, Argv: f.Argv, Script: f.Script, Env: f.Env != "", Dir: f.Dir, Sandbox: f.Sandbox, Workspace: f.Workspace, Reason: f.Reason}
			if f.Scope != approvals.Always {
				j.LeftMS = (f.Until - now.Elapsed).Milliseconds()
			}
			list = append(list, j)
			rows = append(rows, []string{j.ID, scopeText(&j), inforce.Age(time.Since(j.At)), cli.Quote(j.Sandbox), cli.Quote(j.Dir), commandText(&j)})
		}
		text := "nothing is approved\n"
		if len(list) > 0 {
			text = cli.Table("", rows)
		}
		return a.Result(*asJSON, list, text)
	}
}

// scopeText says where and how long an approval is valid.
func scopeText(j *ApprovalJSON) string {
	if j.Scope == approvals.Always {
		return "always"
	}
	text := string(j.Scope)
	if name, ok := strings.CutPrefix(j.Session, "name:"); ok {
		text += " " + cli.Quote(name)
	} else if !j.Here {
		text += " elsewhere"
	}
	left := time.Duration(j.LeftMS) * time.Millisecond
	if left >= 48*time.Hour {
		return text + fmt.Sprintf(", %d days left", left/(24*time.Hour))
	}
	return text + ", " + cli.ShortTime(max(left, time.Second).Round(time.Second)) + " left"
}

// commandText shortens a command line for a table.
func commandText(j *ApprovalJSON) string {
	text := cli.ShellQuote(j.Argv...)
	if j.Script != "" {
		text = strings.TrimRight("-c "+cli.ShellQuote(j.Script)+" "+text, " ")
	}
	if runes := []rune(text); len(runes) > 60 {
		text = string(runes[:57]) + "..."
	}
	if j.Env {
		text += " (with variables)"
	}
	return text
}

// Add approves a command before it runs.
func Add(a *cli.App, fs *flag.FlagSet) func() error {
	flags := &setup.Flags{}
	flags.Register(a, fs)
	scopeName := fs.String("scope", string(approvals.Once), "")
	return func() error {
		scope, err := approvals.ParseScope(*scopeName)
		if err != nil {
			return cli.Usage(fs, fmt.Errorf("-scope: %w", err))
		}
		if fs.NArg() == 0 && !flags.Scripted {
			return cli.Usage(fs, errors.New("there is no command"))
		}
		s, h, cmd, err := setup.Command(context.Background(), a, flags, fs.Args())
		if err != nil {
			return setup.WithRemedy(a, s, flags, err)
		}
		defer h.Close()
		request, err := cmd.Approve(scope)
		if err != nil {
			return setup.WithRemedy(a, s, flags, err)
		}
		how := string(scope)
		if scope == approvals.Session {
			how = "for the session, " + cli.ShortTime(request.SessionTTL)
		}
		return a.Print(fmt.Sprintf("approved %s: %s in %s\n", how, commandText(&ApprovalJSON{Argv: request.Args, Script: request.Script}), cli.Quote(request.Dir)))
	}
}

func Revoke(a *cli.App, fs *flag.FlagSet) func() error {
	all := fs.Bool("all", false, "")
	return func() error {
		if *all == (fs.NArg() > 0) {
			return cli.Usage(fs, errors.New("name approvals by their IDs, or take all back by -all"))
		}
		store, err := a.Store()
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
				return cli.Hint(fmt.Errorf("there is no approval %q; nothing was changed", prefix), "sbxhost approvals list shows what there is")
			case 1:
				ids = append(ids, matching[0])
			default:
				return fmt.Errorf("%q is the beginning of %d IDs; nothing was changed", prefix, len(matching))
			}
		}
		gone, err := store.Revoke(context.Background(), func(f *approvals.Approval) bool { return *all || slices.Contains(ids, f.ID) })
		if err != nil {
			return err
		}
		return a.Print(cli.Plural(len(gone), "approval") + " taken back\n")
	}
}
