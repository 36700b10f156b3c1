// Package launch finds the programs of engines, checks and starts them, and keeps one process of
// each while it lives and answers.
//
// It executes nothing that is where commands can write, or that another user can replace. It knows
// neither definitions nor sandboxes.
package launch

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sbxhost/sbxhost/internal/dial"
	"github.com/sbxhost/sbxhost/internal/wire"
	"github.com/sbxhost/sbxhost/shared"
)

// Options say where engines come from.
type Options struct {
	Builtins Builtins                 // this program serves them by executing itself
	Dir      string                   // of programs that were installed with this one; empty means this program's
	Declared map[string]Source        // other engines, by name; they replace built-in ones
	Inject   map[string]shared.Engine // in this process; they replace all others

	Home         string                      // the caller's, for sources that begin with ~/
	LookupEnv    func(string) (string, bool) // the caller's
	OneShot      bool                        // one command, which shares nothing: an engine starts its init ahead
	Usage        *wire.Usage                 // process attributes for engines to take over; nil is this process's own
	StartTimeout time.Duration               // zero means ten seconds
	Logger       hclog.Logger                // for engines' logs; not nil
	WritableDir  func(p string) string       // the directory above p that commands can write to, for a message; or ""
}

// Source is where an engine that is not built in comes from.
type Source struct {
	// Source is the path of its executable, absolute or beginning with "~/".
	Source string
	// SHA256 are the checksums that the executable must have, in hexadecimal, by platform such as
	// "linux_amd64". Each start checks the opened file, and executes that. Nil permits any file; a
	// platform that is missing from a map that is not empty is refused.
	SHA256 map[string]string
	// Env names the variables of the host's environment that the engine's process gets.
	Env []string
}

// Error is the error of an engine's process that did not start or was lost, with the end of its
// log.
type Error struct {
	Engine string // its name
	Source string // its origin: "built in" or its path
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

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Engines are the engines that a host can use: at most one process of each.
type Engines struct {
	o Options

	mu     sync.Mutex
	closed bool
	slots  map[string]*slot // of the engines that were requested
}

// New starts nothing.
func New(o Options) *Engines {
	if o.StartTimeout <= 0 {
		o.StartTimeout = dial.DefaultStartTimeout
	}
	return &Engines{o: o, slots: map[string]*slot{}}
}
