package consent

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"time"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/prompt"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/internal/source"
)

// Trust records that the user has read a configuration.
func Trust(a *cli.App, fs *flag.FlagSet) func() error {
	list := fs.Bool("list", false, "")
	revoke := fs.Bool("revoke", false, "")
	asJSON := cli.JSONFlag(fs)
	return func() error {
		switch {
		case *list && (*revoke || fs.NArg() > 0):
			return cli.Usage(fs, errors.New("-list takes nothing else but -json"))
		case *asJSON && !*list:
			return cli.Usage(fs, errors.New("-json goes with -list"))
		case *list:
			return trustList(a, *asJSON)
		}
		path, err := trustPath(a, fs.Arg(0), *revoke)
		switch {
		case err != nil:
			return err
		case *revoke:
			return trustRevoke(a, path)
		}
		return trustAdd(a, path)
	}
}

// trustPath returns the resolved path of the configuration to trust.
func trustPath(a *cli.App, name string, gone bool) (string, error) {
	if name == "" {
		path, origin, err := config.Find(config.LookupOptions{Dir: a.Dir, Getenv: func(n string) string {
			if n == "SBXHOST_CONFIG" {
				return "" // it needs no trust
			}
			return a.Getenv(n)
		}})
		switch {
		case err != nil:
			return "", err
		case origin != config.OriginWorkspace:
			return "", cli.Hint(errors.New("no configuration is found in the workspace here"), "name the file")
		}
		return inforce.TrustPath(path)
	}
	path, err := inforce.TrustPath(a.Absolute(name))
	if gone && errors.Is(err, fs.ErrNotExist) {
		return a.Absolute(name), nil
	}
	return path, err
}

func trustAdd(a *cli.App, path string) error {
	text, err := source.Read(path)
	if err != nil {
		return err
	}
	store, err := a.Store()
	if err != nil {
		return err
	}
	trusted, before, err := store.Trusts(path, text)
	if err != nil {
		return err
	}
	if trusted {
		return a.Print(fmt.Sprintf("%s is trusted already\n", cli.Quote(path)))
	}
	if file, diags := config.Parse(path, text, a.EvalInput()); diags.HasErrors() {
		errs := cli.OnlyErrors(diags)
		a.Diagnose(errs)
		return a.PrintLast(fmt.Sprintf("%s: %s; it was not trusted", setup.NameOf(file), cli.Plural(len(errs), "error")), cli.StatusFailed)
	}
	// First show the configuration, then say that it is trusted.
	if before != nil {
		if err := a.Print(prompt.Diff(before.Content, string(text))); err != nil {
			return err
		}
	}
	if err := store.AddTrust(context.Background(), path, text); err != nil {
		return inforce.NotRemembered(path, err)
	}
	return a.Print(fmt.Sprintf("trusted %s, sha256 %x\n", cli.Quote(path), sha256.Sum256(text)))
}

func trustRevoke(a *cli.App, path string) error {
	store, err := a.Store()
	if err != nil {
		return err
	}
	found, err := store.RevokeTrust(context.Background(), path)
	switch {
	case err != nil:
		return err
	case !found:
		return cli.Hint(fmt.Errorf("%s was not trusted", cli.Quote(path)), "sbxhost trust -list shows what is")
	}
	return a.Print(fmt.Sprintf("%s is trusted no more\n", cli.Quote(path)))
}

type TrustedJSON struct {
	Path   string    `json:"path"`
	SHA256 string    `json:"sha256"`
	At     time.Time `json:"at"`
	State  string    `json:"state"` // "unchanged", "changed" or "missing"
}

func trustList(a *cli.App, asJSON bool) error {
	store, err := a.Store()
	if err != nil {
		return err
	}
	records, err := store.TrustList()
	if err != nil {
		return err
	}
	list := []TrustedJSON{}
	rows := [][]string{{"STATE", "TRUSTED", "FILE"}}
	for _, r := range records {
		state := "unchanged"
		if text, err := source.Read(r.Path); errors.Is(err, fs.ErrNotExist) {
			state = "missing"
		} else if err != nil || string(text) != r.Content {
			state = "changed"
		}
		list = append(list, TrustedJSON{r.Path, r.SHA256, r.At, state})
		rows = append(rows, []string{state, inforce.Age(time.Since(r.At)), cli.Quote(r.Path)})
	}
	text := "nothing is trusted\n"
	if len(list) > 0 {
		text = cli.Table("", rows)
	}
	return a.Result(asJSON, list, text)
}
