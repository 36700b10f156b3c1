package setup

import (
	"context"
	"fmt"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
)

// KeepTrust trusts what sbxhost itself has written to a file, if its user has trusted what was there
// before; nil is nothing. path is the one by which sbxhost found the file, or by which the user named it.
// An error is no failure: the next user of the file gets a question.
func KeepTrust(a *cli.App, path string, before, after []byte) {
	store, err := a.Store()
	if err != nil {
		return
	}
	place, err := inforce.TrustPlace(path)
	if err != nil {
		return
	}
	trusted := before == nil
	if !trusted {
		trusted, _, err = store.Trusts(place, before)
	}
	if trusted {
		err = store.AddTrust(context.Background(), place, after)
	}
	if err != nil {
		a.Say(fmt.Sprintf("%s has to be trusted before it is used: %v", cli.Quote(path), err))
	}
}
