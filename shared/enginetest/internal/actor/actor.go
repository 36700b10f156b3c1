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
	"path/filepath"
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

// An action has ways, which "or" separates: it succeeds by the first that does.

// Steps are the parts of a way, which "then" separates. Each is a verb and its arguments, and
// must succeed, but for one with "-" before its verb; one with "!" must fail.
func Steps(way []string) [][]string { return split(way, "then") }

// split splits an action at a word. All that follows the verb nested is its own.
func split(act []string, word string) (parts [][]string) {
	for {
		end := slices.Index(act, word)
		if end < 0 || act[0] == "nested" {
			return append(parts, act)
		}
		parts, act = append(parts, act[:end]), act[end+1:]
	}
}

// An action does one thing and says what it got by it. An error says that it
// was refused.
type action func(args []string) (detail string, err error)

// verdictError is the error of an action that is Absent or Broken.
type verdictError struct {
	kind Kind
	error
}

func absent(why string) error { return verdictError{Absent, errors.New(why)} }

func broken(format string, args ...any) error {
	return verdictError{Broken, fmt.Errorf(format, args...)}
}

// kindOf returns the kind of verdict on an action with this error.
func kindOf(err error) Kind {
	if e, ok := errors.AsType[verdictError](err); ok {
		return e.kind
	} else if err != nil {
		return Denied
	}
	return Got
}

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

// result is what the last system call of the action do that did not return zero has returned.
var result = -1

// filled replaces what an action's process alone knows: $home is its HOME, $child a process that it
// starts, $result a result, and $(PATTERN) all files that match.
func filled(args []string) (list []string) {
	known := map[string]func() string{
		"$home":   func() string { return os.Getenv("HOME") },
		"$result": func() string { return fmt.Sprint(result) },
		"$child": func() string {
			c, err := StartChild(self("hold"))
			tried(err)
			return strconv.Itoa(c.Process.Pid)
		},
	}
	for _, arg := range args {
		for name, value := range known {
			if strings.Contains(arg, name) {
				arg = strings.ReplaceAll(arg, name, value())
			}
		}
		found := []string{arg}
		if pattern, ok := strings.CutPrefix(arg, "$("); ok {
			found, _ = filepath.Glob(strings.TrimSuffix(pattern, ")"))
		}
		list = append(list, found...)
	}
	return list
}

// carryOut tries the ways of an action.
func carryOut(act []string) (detail string, err error) {
	for _, way := range split(act, "or") {
		detail, refused := goThrough(Steps(way))
		if kind := kindOf(refused); kind == Got || kind == Broken {
			return detail, refused
		}
		if err == nil || kindOf(err) == Absent {
			err = refused
		}
	}
	return "", err
}

// goThrough carries out steps, up to one that fails.
func goThrough(steps [][]string) (detail string, err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case verdictError:
			err = v
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
	for _, table := range []map[string]action{fileActions(), processActions(), networkActions(), platformActions()} {
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
	detail, err := carryOut(words)
	if err != nil {
		detail = err.Error()
	}
	say(Verdict{kindOf(err), detail})
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

// onOne is the action that carries out f for its first argument.
func onOne(f func(path string) error) action {
	return func(args []string) (string, error) { return "", f(args[0]) }
}

// onTwo is the same for the first two.
func onTwo(f func(from, to string) error) action {
	return func(args []string) (string, error) { return "", f(args[0], args[1]) }
}

// anyOf is the action that carries out f for each argument.
func anyOf(f func(arg string) (string, error)) action {
	return func(args []string) (string, error) { return each(args, f) }
}

// each carries out f for each argument; any success is one.
func each(args []string, f func(arg string) (string, error)) (string, error) {
	var got []string
	denied := fs.ErrNotExist
	for _, arg := range args {
		detail, err := f(arg)
		switch {
		case err == nil:
			got = append(got, arg+": "+detail)
		case errors.Is(denied, fs.ErrNotExist):
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
