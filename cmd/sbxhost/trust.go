package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/sbxhost/sbxhost/approvals"
	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/inforce"
)

// trust records that the user has read a configuration.
func (a *app) trust(fs *flag.FlagSet) func() error {
	list := fs.Bool("list", false, "")
	revoke := fs.Bool("revoke", false, "")
	asJSON := jsonFlag(fs)
	return func() error {
		switch {
		case *list && (*revoke || fs.NArg() > 0):
			return usage(fs, errors.New("-list takes nothing else but -json"))
		case *asJSON && !*list:
			return usage(fs, errors.New("-json goes with -list"))
		case *list:
			return a.trustList(*asJSON)
		}
		path, err := a.trustPath(fs.Arg(0), *revoke)
		switch {
		case err != nil:
			return err
		case *revoke:
			return a.trustRevoke(path)
		}
		return a.trustAdd(path)
	}
}

// trustPath is the file that is meant, resolved.
func (a *app) trustPath(name string, gone bool) (string, error) {
	if name == "" {
		path, origin, err := config.Find(config.LookupOptions{Dir: a.dir, Getenv: func(n string) string {
			if n == "SBXHOST_CONFIG" {
				return "" // which needs no trust
			}
			return a.getenv(n)
		}})
		switch {
		case err != nil:
			return "", err
		case origin != config.OriginWorkspace:
			return "", &hinted{errors.New("no configuration is found in the workspace here"), "name the file"}
		}
		return inforce.TrustPlace(path)
	}
	path, err := inforce.TrustPlace(a.absolute(name))
	if gone && errors.Is(err, fs.ErrNotExist) {
		return a.absolute(name), nil
	}
	return path, err
}

func (a *app) trustAdd(path string) error {
	text, err := config.Read(path)
	if err != nil {
		return err
	}
	if len(text) > config.MaxSize {
		return fmt.Errorf("%s is longer than the %d bytes of a configuration", quote(path), config.MaxSize)
	}
	store, err := a.caller().Store()
	if err != nil {
		return err
	}
	state, before, err := store.Trusts(path, text)
	if err != nil {
		return err
	}
	if state == approvals.TrustConfirmed {
		return a.print(fmt.Sprintf("%s is trusted already\n", quote(path)))
	}
	if file, diags := config.Parse(path, text, a.caller().EvalInput()); diags.HasErrors() {
		errs := onlyErrors(diags)
		a.diagnose(errs)
		return a.told(fmt.Sprintf("%s: %s; it was not trusted", nameOf(file), plural(len(errs), "error")), statusFailed)
	}
	// First what is to be trusted, then that it is.
	if state == approvals.TrustChanged {
		if err := a.print(unifiedDiff(before.Content, string(text))); err != nil {
			return err
		}
	}
	if err := store.AddTrust(context.Background(), path, text); err != nil {
		return inforce.NotRemembered(path, err)
	}
	return a.print(fmt.Sprintf("trusted %s, sha256 %x\n", quote(path), sha256.Sum256(text)))
}

func (a *app) trustRevoke(path string) error {
	store, err := a.caller().Store()
	if err != nil {
		return err
	}
	found, err := store.RevokeTrust(context.Background(), path)
	switch {
	case err != nil:
		return err
	case !found:
		return &hinted{fmt.Errorf("%s was not trusted", quote(path)), "sbxhost trust -list shows what is"}
	}
	return a.print(fmt.Sprintf("%s is trusted no more\n", quote(path)))
}

type trustedJSON struct {
	Path   string    `json:"path"`
	SHA256 string    `json:"sha256"`
	At     time.Time `json:"at"`
	State  string    `json:"state"` // "unchanged", "changed" or "missing"
}

func (a *app) trustList(asJSON bool) error {
	store, err := a.caller().Store()
	if err != nil {
		return err
	}
	records, err := store.TrustList()
	if err != nil {
		return err
	}
	list := []trustedJSON{}
	rows := [][]string{{"STATE", "TRUSTED", "FILE"}}
	for _, r := range records {
		state := "unchanged"
		if text, err := config.Read(r.Path); errors.Is(err, fs.ErrNotExist) {
			state = "missing"
		} else if err != nil || string(text) != r.Content {
			state = "changed"
		}
		list = append(list, trustedJSON{r.Path, r.SHA256, r.At, state})
		rows = append(rows, []string{state, inforce.Age(time.Since(r.At)), quote(r.Path)})
	}
	text := "nothing is trusted\n"
	if len(list) > 0 {
		text = table("", rows)
	}
	return a.result(asJSON, list, text)
}

// errNoTerminal says that there is nobody to ask.
var errNoTerminal = errors.New("there is no terminal to ask on")

// askTrust asks whether to trust a configuration that was found in the workspace.
func (a *app) askTrust(ctx context.Context, u *inforce.Untrusted) (bool, error) {
	question, whole := trustQuestion(u.Path, u.Before, string(u.Text), u.Changed)
	answer, err := "", errNoTerminal
	if whole {
		answer, err = a.ask(ctx, func(host.TerminalSize) string { return question })
	}
	if errors.Is(err, errNoTerminal) {
		if u.Changed {
			a.showChange(u.Path, u.Before)
		}
		return false, nil
	}
	return answer == "y" || answer == "yes", err
}

// maxTrustLines is how much of a configuration is shown with the question, in
// lines of a terminal: for more, an editor is the place to read it. What has
// scrolled out of sight has not been read.
const maxTrustLines = 300

// maxChangeLines is how much is shown with a refusal, which may go to a log.
const maxChangeLines = 60

// cutRows is the beginning of a text that is no longer than so many lines of a
// terminal, and says how much is missing.
func cutRows(text string, limit int) string {
	lines := strings.SplitAfter(text, "\n")
	shown, height := 0, 0
	for shown < len(lines) && height+rows(lines[shown]) <= limit {
		height += rows(lines[shown])
		shown++
	}
	if shown == len(lines) {
		return text
	}
	return strings.Join(lines[:shown], "") + fmt.Sprintf("... and %s\n", plural(len(lines)-shown-1, "further line"))
}

// rows is how many lines of a terminal of the usual width a text takes.
func rows(text string) (n int) {
	for line := range strings.Lines(text) {
		width := 8*strings.Count(line, "\t") + utf8.RuneCountInString(line)
		n += (width + 79) / 80
	}
	return n
}

// trustQuestion is what a person is asked. It is not whole where there is more
// to read than a terminal is good for.
func trustQuestion(path, before, after string, changed bool) (text string, whole bool) {
	change := unifiedDiff(before, after)
	if rows(change) > maxTrustLines {
		return "", false
	}
	var b strings.Builder
	if changed {
		fmt.Fprintf(&b, "\nsbxhost: %s has changed since you trusted it:\n\n", quote(path))
	} else {
		fmt.Fprintf(&b, "\nsbxhost: %s was found in the workspace, and you have not trusted it. It says:\n\n", quote(path))
	}
	b.WriteString(change)
	b.WriteString("\nIt decides what commands may see and do. Trust it? [y]es, [N]o: ")
	return b.String(), true
}

// unifiedDiff shows how before became after, as diff -u does, fit for a terminal. It is ""
// where they are the same.
func unifiedDiff(before, after string) string {
	text := string(diff.Diff("", []byte(before), "", []byte(after)))
	for range 3 { // of names that the question has said
		_, text, _ = strings.Cut(text, "\n")
	}
	return printable(text)
}

// keepTrust goes on trusting a file that sbxhost itself has changed. The path is
// the one by which it was found or named.
func (a *app) keepTrust(name string, before, after []byte) {
	store, err := a.caller().Store()
	if err != nil {
		return
	}
	path, err := inforce.TrustPlace(name)
	if err != nil {
		return
	}
	if state, _, err := store.Trusts(path, before); err != nil || state != approvals.TrustConfirmed {
		return
	}
	if err := store.AddTrust(context.Background(), path, after); err != nil {
		a.say(fmt.Sprintf("%s has to be trusted anew: %v", quote(path), err))
	}
}

// trustWritten trusts a file that sbxhost has just written as a whole. That it
// cannot is no failure: whoever uses it is asked.
func (a *app) trustWritten(path string, text []byte) {
	store, err := a.caller().Store()
	if err != nil {
		return
	}
	if place, err := inforce.TrustPlace(path); err == nil {
		if err := store.AddTrust(context.Background(), place, text); err != nil && !errors.Is(err, os.ErrPermission) {
			a.say(fmt.Sprintf("%s has to be trusted before it is used: %v", quote(path), err))
		}
	}
}
