package setup

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/internal/inforce"
)

// KeepTrust keeps trust for a file that sbxhost itself has changed. path is the one by which
// sbxhost found the file, or by which the user named it.
func KeepTrust(a *cli.App, name string, before, after []byte) {
	store, err := a.Store()
	if err != nil {
		return
	}
	path, err := inforce.TrustPlace(name)
	if err != nil {
		return
	}
	if trusted, _, err := store.Trusts(path, before); err != nil || !trusted {
		return
	}
	if err := store.AddTrust(context.Background(), path, after); err != nil {
		a.Say(fmt.Sprintf("%s has to be trusted anew: %v", cli.Quote(path), err))
	}
}

// TrustWritten trusts a file that sbxhost has just written completely. An error is no failure: the
// next user of the file gets a question.
func TrustWritten(a *cli.App, path string, text []byte) {
	store, err := a.Store()
	if err != nil {
		return
	}
	if place, err := inforce.TrustPlace(path); err == nil {
		if err := store.AddTrust(context.Background(), place, text); err != nil && !errors.Is(err, os.ErrPermission) {
			a.Say(fmt.Sprintf("%s has to be trusted before it is used: %v", cli.Quote(path), err))
		}
	}
}
