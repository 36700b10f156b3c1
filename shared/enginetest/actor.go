package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

const (
	// actorArg is argv[1], and actorEnv in the environment, of a process that
	// is to carry out an action. Neither alone is enough.
	actorArg     = "sbxhost-enginetest"
	actorEnvName = "SBXHOST_ENGINETEST"
	actorEnv     = actorEnvName + "=9d1b3b1c"
	// verdictPrefix begins the line in which an action tells how it went.
	verdictPrefix = "sbxhost-verdict: "
)

// verdict is how an action went.
type verdict struct {
	Kind   verdictKind `json:"verdict"`
	Detail string      `json:"detail"`
}

type verdictKind string

const (
	verdictGot    verdictKind = "got"    // it succeeded
	verdictDenied verdictKind = "denied" // it did not
	verdictAbsent verdictKind = "absent" // this machine has nothing to try it on
	verdictBroken verdictKind = "broken" // it could not be tried
)

// hooked says that this program's main has called Hook. It is process-wide
// because it is a fact about the process's main: only then is it safe to execute
// the program again and expect an action.
var hooked atomic.Bool

// Hook makes a program able to carry out probes inside sandboxes, and to be the
// init of engines that use package sandboxinit. It must be the first statement
// of main. In a process that was started for either it does not return.
func Hook() {
	sandboxinit.Hook()
	if len(os.Args) >= 3 && os.Args[1] == actorArg && os.Getenv(actorEnvName) == strings.TrimPrefix(actorEnv, actorEnvName+"=") {
		// What an action asks of its thread - a signal, a namespace, a privilege given
		// up - must not come to be another one's.
		runtime.LockOSThread()
		os.Exit(act(os.Args[2], os.Args[3:]))
	}
	hooked.Store(true)
}

// An action does one thing and says what it got by it. An error says that it
// was refused.
type action func(args []string) (detail string, err error)

// brokenError is an action that could not be tried.
type brokenError struct{ error }

func broken(format string, args ...any) error { return brokenError{fmt.Errorf(format, args...)} }

// tried ends an action that cannot be tried because of an error.
func tried(err error) {
	if err != nil {
		panic(broken("%v", err))
	}
}

// number is an argument that is one.
func number(arg string) int {
	n, err := strconv.Atoi(arg)
	tried(err)
	return n
}

// carryOut carries out an action.
func carryOut(a action, args []string) (detail string, err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case brokenError:
			err = v
		default:
			panic(v)
		}
	}()
	return a(args)
}

func findAction(name string) (action, bool) {
	for _, table := range []map[string]action{fileActions(), processActions(), networkActions(), environmentActions(), contractActions(), platformActions()} {
		if a, ok := table[name]; ok {
			return a, true
		}
	}
	return nil, false
}

// act carries out an action in this process, which has no other purpose.
func act(name string, args []string) int {
	a, ok := findAction(name)
	if !ok {
		say(verdict{verdictBroken, fmt.Sprintf("there is no action %q on this platform", name)})
		return 3
	}
	// A filter may answer a system call with this signal.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGSYS)
	detail, err := carryOut(a, args)
	v := verdict{verdictGot, detail}
	switch {
	case err == nil:
	case errors.As(err, new(brokenError)):
		v = verdict{verdictBroken, err.Error()}
	case errors.As(err, new(*absentError)):
		v = verdict{verdictAbsent, err.Error()}
	default:
		v = verdict{verdictDenied, err.Error()}
	}
	say(v)
	return 0
}

func say(v verdict) {
	const limit = 200 << 10
	if len(v.Detail) > limit {
		v.Detail = v.Detail[:limit]
	}
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte(`{"verdict":"broken"}`)
	}
	os.Stdout.WriteString("\n" + verdictPrefix + string(text) + "\n")
}

// anyOf is the action that carries out f for each argument.
func anyOf(f func(arg string) (string, error)) action {
	return func(args []string) (string, error) { return each(args, f) }
}

// each carries out f for each argument; any success is one.
func each(args []string, f func(arg string) (string, error)) (string, error) {
	if len(args) == 0 {
		return "", broken("no argument")
	}
	var got []string
	var denied error
	for _, arg := range args {
		detail, err := f(arg)
		switch {
		case err == nil:
			got = append(got, arg+": "+detail)
		case denied == nil || errors.Is(denied, fs.ErrNotExist):
			denied = err
		}
	}
	if len(got) > 0 {
		return strings.Join(got, "; "), nil
	}
	return "", denied
}
