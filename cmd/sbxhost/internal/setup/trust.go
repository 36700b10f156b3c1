package setup

import (
	"context"
	"fmt"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
)

// KeepTrust trusts the text after, which sbxhost itself has written to a file, if the user trusted
// the text before; nil means that there was no file. path is the one at which sbxhost found the
// file, or which the user named. An error is no failure: the next use of the file asks.
func KeepTrust(a *cli.App, path string, before, after []byte) {
	store, err := a.Store()
	if err != nil {
		return
	}
	trustPath, err := inforce.TrustPath(path)
	if err != nil {
		return
	}
	trusted := before == nil
	if !trusted {
		trusted, _, err = store.Trusts(trustPath, before)
	}
	if trusted {
		err = store.AddTrust(context.Background(), trustPath, after)
	}
	if err != nil {
		a.Say(fmt.Sprintf("%s has to be trusted before it is used: %v", cli.Quote(path), err))
	}
}
