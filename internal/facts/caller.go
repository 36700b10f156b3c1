package facts

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sbxhost/sbxhost/internal/approvals"
)

// Caller is what is known of the program and person that commands are run for.
type Caller struct {
	UID     int
	Home    string // absolute, or empty
	Environ *Environment
}

// LookupEnv reads the caller's environment.
func (c *Caller) LookupEnv(name string) (string, bool) { return c.Environ.Lookup(name) }

// An Environment is a caller's. It notes which variables are read: what was made by them is for callers who
// have the same values. Nil is empty.
type Environment struct {
	list []string // "name=value"

	mu   sync.Mutex
	read map[string]bool
}

// NewEnvironment makes one of "name=value".
func NewEnvironment(list []string) *Environment {
	return &Environment{list: list, read: map[string]bool{}}
}

// Lookup reads one variable.
func (e *Environment) Lookup(name string) (string, bool) {
	if e == nil {
		return "", false
	}
	e.mu.Lock()
	e.read[name] = true
	e.mu.Unlock()
	return valueIn(e.list, name)
}

// Differs gives a variable that was read and has another value in an environment, or "".
func (e *Environment) Differs(list []string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(e.read)) {
		was, had := valueIn(e.list, name)
		if is, has := valueIn(list, name); is != was || has != had {
			return name
		}
	}
	return ""
}

// ErrOtherCaller is wrapped by the error for a command whose caller has another value of a variable that
// its Host has read. Nothing was run; a Host that is made with the caller's environment can run it.
var ErrOtherCaller = errors.New("this host is for another environment")

func valueIn(list []string, name string) (string, bool) {
	for _, entry := range slices.Backward(list) { // the last one counts, as in os/exec
		if value, ok := strings.CutPrefix(entry, name); ok && strings.HasPrefix(value, "=") {
			return value[1:], true
		}
	}
	return "", false
}

// StateDir is where sbxhost keeps what must outlast it, for this user alone; empty where
// nothing says where.
func (c *Caller) StateDir() string {
	return approvals.Dir(func(name string) string {
		if name == "HOME" {
			return c.Home
		}
		value, _ := c.LookupEnv(name)
		return value
	})
}

// A RepositoryReport is a git repository that came to be in a writable directory
// while a command ran, or in which something came to be that git continues, and
// what git would run or read because of it.
type RepositoryReport struct {
	Path string `json:"path"`
	// Hooks are executable files in its hooks directory, and Keys the keys of its
	// configuration that name commands or further configuration: the first 20 of
	// each. More is how many there are besides.
	Hooks []string `json:"hooks"`
	Keys  []string `json:"config_keys"`
	More  int      `json:"more"`
	// Alternates says that it takes objects from elsewhere.
	Alternates bool `json:"alternates"`
	// Pending are the directories of what it is in the middle of since the command:
	// a rebase, an am, a cherry-pick or a revert. What they list can name commands.
	Pending []string `json:"pending"`
	// Unclear says why it is not known what else git would act on, or write to, in one
	// line; empty if it is.
	Unclear string `json:"unclear"`
	// Superproject is the user's repository whose next git status goes into this one, as a
	// submodule, and acts on what is reported here. Such reports come first. Empty for others.
	Superproject string `json:"superproject"`
	// Existing says that it was there before, and was that submodule already: Pending and
	// Unclear are told of such a one, and with Definition.Git "full" those of Hooks, Keys and
	// Alternates that changed.
	Existing bool `json:"existing"`
}
