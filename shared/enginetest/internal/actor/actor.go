// Package actor is what of the conformance kit runs inside a sandbox: actions, each of
// which makes the very system calls that a probe is about and says what it got by them. It
// knows nothing of probes and engines. A process that was started with Arg and Env carries
// one out, and is no other program.
package actor

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// Arg is argv[1], and Env in the environment, of a process that is to carry out an
	// action. Neither alone is enough. The action's name and arguments come after Arg.
	Arg     = "sbxhost-enginetest"
	envName = "SBXHOST_ENGINETEST"
	Env     = envName + "=9d1b3b1c"
	// Prefix begins the line in which an action tells how it went, by a Verdict as JSON.
	Prefix = "sbxhost-verdict: "
	// Timeout ends an action that hangs.
	Timeout = time.Minute
)

// Verdict is how an action went.
type Verdict struct {
	Kind   Kind   `json:"verdict"`
	Detail string `json:"detail"`
}

// Kind is what a verdict says.
type Kind string

const (
	Got    Kind = "got"    // it succeeded
	Denied Kind = "denied" // it did not
	Absent Kind = "absent" // this machine has nothing to try it on
	Broken Kind = "broken" // it could not be tried
)

// Hook carries out an action in a process that was started for one, and does not return
// there.
func Hook() {
	if len(os.Args) >= 3 && os.Args[1] == Arg && os.Getenv(envName) == strings.TrimPrefix(Env, envName+"=") {
		// What an action asks of its thread - a signal, a namespace, a privilege given
		// up - must not come to be another one's.
		runtime.LockOSThread()
		act(os.Args[2:])
		os.Exit(0)
	}
}

// Steps are the parts of an action, which "then" separates. Each is a verb and its arguments, and
// must succeed, but for one with "-" before its verb; one with "!" must fail. All that follows the verb nested is its own.
func Steps(act []string) (steps [][]string) {
	for {
		end := slices.Index(act, "then")
		if end < 0 || act[0] == "nested" {
			return append(steps, act)
		}
		steps, act = append(steps, act[:end]), act[end+1:]
	}
}

// Has says whether all verbs of an action are there on this platform.
func Has(act []string) bool {
	return !slices.ContainsFunc(Steps(act), func(step []string) bool {
		_, ok := findAction(strings.TrimLeft(step[0], "-!"))
		return !ok
	})
}

// An action does one thing and says what it got by it. An error says that it
// was refused.
type action func(args []string) (detail string, err error)

// absentError says that a machine lacks what an action is about.
type absentError struct{ why string }

func (e *absentError) Error() string { return e.why }

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

// result is what the last system call of the action do has returned.
var result = -1

// filled replaces what an action's process alone knows: $home is its HOME, $child a process that it
// starts, and $result what the system call before has returned.
func filled(args []string) []string {
	known := map[string]func() string{
		"$home":   func() string { return os.Getenv("HOME") },
		"$result": func() string { return fmt.Sprint(result) },
		"$child": func() string {
			c, err := StartChild(self("hold"))
			tried(err)
			return strconv.Itoa(c.Process.Pid)
		},
	}
	args = slices.Clone(args)
	for i, arg := range args {
		for name, value := range known {
			if strings.Contains(arg, name) {
				args[i] = strings.ReplaceAll(arg, name, value())
			}
		}
	}
	return args
}

// carryOut carries out the steps of an action, up to one that fails.
func carryOut(steps [][]string) (detail string, err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case brokenError, *absentError:
			err = v.(error)
		default:
			panic(v)
		}
	}()
	for _, step := range steps {
		name := strings.TrimLeft(step[0], "-!")
		a, ok := findAction(name)
		if !ok {
			return "", broken("there is no action %q on this platform", name)
		}
		got, err := a(filled(step[1:]))
		switch step[0][0] {
		case '-':
			err = nil
		case '!':
			if err == nil {
				return "", fmt.Errorf("%s: %s", name, got)
			}
			err = nil
		}
		if err != nil {
			return "", err
		}
		detail = cmp.Or(got, name+": done")
	}
	return detail, nil
}

func findAction(name string) (action, bool) {
	for _, table := range []map[string]action{fileActions(), processActions(), networkActions(), contractActions(), platformActions()} {
		if a, ok := table[name]; ok {
			return a, true
		}
	}
	return nil, false
}

// act carries out an action in this process, which has no other purpose.
func act(words []string) {
	// A filter may answer a system call with this signal.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGSYS)
	detail, err := carryOut(Steps(words))
	v := Verdict{Got, detail}
	switch {
	case err == nil:
	case errors.As(err, new(brokenError)):
		v = Verdict{Broken, err.Error()}
	case errors.As(err, new(*absentError)):
		v = Verdict{Absent, err.Error()}
	default:
		v = Verdict{Denied, err.Error()}
	}
	say(v)
}

func say(v Verdict) {
	const limit = 200 << 10
	if len(v.Detail) > limit {
		v.Detail = v.Detail[:limit]
	}
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte(`{"verdict":"broken"}`)
	}
	os.Stdout.WriteString("\n" + Prefix + string(text) + "\n")
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

// ReadUntil reads until a text has come, or until an error or the end. It reads nothing of what follows.
func ReadUntil(r io.Reader, text string) (string, error) {
	var got []byte
	for next := make([]byte, 1); !bytes.HasSuffix(got, []byte(text)); {
		n, err := r.Read(next)
		got = append(got, next[:n]...)
		if err != nil {
			return string(got), err
		}
	}
	return string(got), nil
}
