package bwrap

import (
	"runtime"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/seccomp"
)

// systemCalls gives the option words that keep a command from parts of the
// kernel, and the filter that they name by fd.
func systemCalls(o seccomp.Options, fd string) (words []string, f seccomp.Filter, err error) {
	f, err = seccomp.New(runtime.GOARCH, o)
	if err != nil {
		return nil, f, &shared.Error{Kind: shared.ErrUnusable, Attribute: "engine", Message: err.Error()}
	}
	// bubblewrap loads it last of all, so that it need not allow what bubblewrap does.
	words = []string{"--add-seccomp-fd", fd}
	if !o.NestedUserNamespaces {
		// The filter refuses them, too; this holds where a filter cannot see the flags.
		words = append(words, "--disable-userns")
	}
	return words, f, nil
}
