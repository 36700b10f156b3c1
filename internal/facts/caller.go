package facts

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/sbxhost/sbxhost/internal/approvals"
	"github.com/sbxhost/sbxhost/shared"
)

// Caller is the program and person that commands run for.
type Caller struct {
	UID     int
	Home    string // absolute, or empty
	Environ *Environment
}

// LookupEnv reads the caller's environment.
func (c *Caller) LookupEnv(name string) (string, bool) { return c.Environ.Lookup(name) }

// Getenv is LookupEnv without the difference between empty and missing.
func (c *Caller) Getenv(name string) string {
	value, _ := c.LookupEnv(name)
	return value
}

// An Environment is a caller's environment. It records which variables are read: results from them
// are valid for callers with the same values. Nil is empty.
type Environment struct {
	list []string // "name=value"
	read sync.Map // names
}

// NewEnvironment makes an Environment from "name=value".
func NewEnvironment(list []string) *Environment {
	return &Environment{list: list}
}

// Lookup reads one variable.
func (e *Environment) Lookup(name string) (string, bool) {
	if e == nil {
		return "", false
	}
	e.read.Store(name, true)
	return valueIn(e.list, name)
}

// Differs returns the first variable, by name, that was read and has another value in list, or "".
func (e *Environment) Differs(list []string) (first string) {
	for key := range e.read.Range {
		name := key.(string)
		was, had := valueIn(e.list, name)
		if is, has := valueIn(list, name); (is != was || has != had) && (first == "" || name < first) {
			first = name
		}
	}
	return first
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

// StateDir is the directory for sbxhost's lasting state, for this user alone; "" if it is unknown.
func (c *Caller) StateDir() string { return approvals.Dir(c.Getenv) }

// Owner is the user that a root caller's commands run as.
type Owner struct {
	User shared.User
	Name string // empty without an account
	Home string // empty without an account
}
