// Package launch finds the programs of engines, checks them, starts them, and keeps one
// process of each for as long as it lives and answers.
//
// It executes nothing that lies where commands can write, and nothing that somebody else
// can replace. It knows neither definitions nor sandboxes.
package launch

import (
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sbxhost/sbxhost/internal/dial"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/wire"
	"github.com/sbxhost/sbxhost/shared"
)

// Options say where engines come from.
type Options struct {
	Builtins Builtins                 // served by this program, which executes itself
	Dir      string                   // with programs that were installed with this one; empty means this program's
	Declared map[string]Source        // from elsewhere, by name; in place of what is built in
	Reattach map[string]wire.Reattach // engines that run already, in place of all but injected ones
	Inject   map[string]shared.Engine // in this process, ahead of all others

	Home         string                      // of the caller, for sources that begin with ~/
	LookupEnv    func(string) (string, bool) // of the caller
	OneShot      bool                        // one command, which shares nothing: an engine starts its init ahead
	Usage        *wire.Usage                 // what engines take over; nil is this process's own
	StartTimeout time.Duration               // zero means ten seconds
	Logger       hclog.Logger                // of what engines log; not nil
	WritableDir  func(p string) string       // the directory with p that commands can write to, as a message names it; or ""
}

// Source says where an engine that is not built in comes from.
type Source struct {
	// Source is the path of its executable, absolute or beginning with "~/".
	Source string
	// SHA256 are the checksums that the executable must have, by platform such
	// as "linux_amd64", in hexadecimal. It is checked at every start, on the
	// opened file that is then executed. Nil means any; a platform that is
	// missing from a map that is not empty is refused.
	SHA256 map[string]string
	// Env names the variables of the host's environment that the engine's
	// process may see.
	Env []string
}

// Error says that an engine's process could not be started, or was lost,
// with the end of what it logged.
type Error struct {
	Engine string // its name
	Source string // where it came from: "built in" or its path
	Err    error
	Log    string // up to 8 KiB; may be empty
}

func (e *Error) Error() string {
	s := fmt.Sprintf("engine %q", e.Engine)
	if e.Source != "" {
		s += " (" + e.Source + ")"
	}
	s += ": " + e.Err.Error()
	if e.Log != "" {
		s += "\nits log ends:\n  " + strings.ReplaceAll(e.Log, "\n", "\n  ")
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Engines are the engines that a host can use: at most one process of each.
type Engines struct {
	o Options
	processes
}

// New starts nothing. The error names the option at fault.
func New(o Options) (*Engines, error) {
	for name := range o.Reattach {
		if !paths.IsName(name) || IsAuto(name) || Name(name) != name {
			return nil, fmt.Errorf("%s: %q is not the name of an engine; it takes the name by which the engine calls itself", wire.ReattachEnv, name)
		}
	}
	if o.StartTimeout <= 0 {
		o.StartTimeout = dial.DefaultStartTimeout
	}
	return &Engines{o: o}, nil
}
