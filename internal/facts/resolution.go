//go:build unix

package facts

import (
	"errors"

	"github.com/sbxhost/sbxhost/internal/env"
	"github.com/sbxhost/sbxhost/internal/scan"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// Request is the context in which a definition is resolved.
type Request struct {
	Name string
	view.Definition
	Session shared.Session
	// SessionHome is the session's home directory, a path of the host; "" leaves the home to the
	// engine.
	SessionHome string
	// Unisolated says that commands run without isolation: then nothing is searched or hidden.
	Unisolated bool
	// Planning says to execute no program; see Machine.Credentials.
	Planning bool
	// OnDemand says that Session can have a directory: if the definition wants one, the error is
	// [ErrWantsSession], before the search.
	OnDemand bool
}

// ErrWantsSession says to resolve again, with a directory for the session.
var ErrWantsSession = errors.New("the definition wants a session")

// Resolution is a definition with absolute paths.
type Resolution struct {
	*view.View
	Spec shared.Spec
	// Copies maps a copy that is a source to its original.
	Copies map[string]string
	// Configurations are files of git that commands write to only in a review.
	Configurations []string
	// Submodules are the gitlinks in the indexes of the user's repositories, and WorkTrees the
	// checkouts of these repositories, by git directory; both for a review.
	Submodules []string
	WorkTrees  map[string]string
	// Inject has the credentials to add to requests. Spec lacks them: people see it.
	Inject shared.Injection
	// instead are variables for commands with placeholders; withheld must be in none.
	instead         []env.Secret
	withheldSecrets []shared.Secret
	// gitConfig is a file that git inside reads as the system's configuration, or "".
	gitConfig string
	// baseline is the state before the command, and searchAgain searches again.
	baseline    baseline
	searchAgain func() (*scan.Result, error)
	writable    []string // where commands can write, to judge what git says
	allOpen     bool     // a command may change what git acts on in all repositories
	headLog     string   // see [Machine.headLog]
	// lastLook is the latest state, for processes of a session that outlive their command and make
	// changes until the next one.
	lastLook   *baseline
	Watched    []Watched // at the start of the command
	mark       *mark
	unreported []*mark  // of earlier commands
	owned      []string // the user's repositories at the last look
}

// HasLastLook reports whether there is a look from the end of the command to continue from. out may
// be nil.
func (out *Resolution) HasLastLook() bool { return out != nil && out.lastLook != nil }
