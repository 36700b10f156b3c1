package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/plugins/noop"
	"github.com/sbxhost/sbxhost/shared"
)

// engine is "bwrap" where bubblewrap is installed or must be. Elsewhere the
// examples run without isolation, which changes nothing of what they print.
func engine() string {
	_, err := os.Stat("/usr/bin/bwrap")
	required := slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "bwrap")
	if runtime.GOOS == "linux" && (err == nil || required) {
		return "bwrap"
	}
	return "noop"
}

// project makes an empty directory to work on.
func project() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "project")
	if err != nil {
		log.Fatal(err)
	}
	return dir, func() { os.RemoveAll(dir) }
}

// exampleHost gives a Host with a sandbox "fast", as ExampleHost_Command makes
// one.
func exampleHost() (*host.Host, func()) {
	dir, remove := project()
	h, err := host.New(context.Background(), host.Options{
		Builtins:  builtins,
		Sandboxes: map[string]host.Definition{"fast": {Engine: engine(), Env: map[string]string{"CI": "1"}}},
		Workspace: host.WorkspaceOptions{Root: dir},
	})
	if err != nil {
		log.Fatal(err)
	}
	return h, func() {
		h.Close()
		remove()
	}
}

func ExampleHost_Command() {
	dir, remove := project()
	defer remove()
	ctx := context.Background()
	h, err := host.New(ctx, host.Options{
		Builtins:  builtins, // what host.ServeBuiltin gave, which main calls first
		Sandboxes: map[string]host.Definition{"fast": {Engine: engine()}},
		Workspace: host.WorkspaceOptions{Root: dir},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close()

	cmd := h.Command(ctx, "fast", "sh", "-c", "echo hello | tee greeting")
	cmd.Stdout = os.Stdout
	if err := cmd.Run(); err != nil {
		log.Fatal(err)
	}
	greeting, err := os.ReadFile(dir + "/greeting") // the project is the command's, too
	fmt.Printf("%s%v\n", greeting, err)
	// Output:
	// hello
	// hello
	// <nil>
}

func ExampleCmd_Output() {
	h, done := exampleHost()
	defer done()
	cmd := h.Command(context.Background(), "fast", "tr", "a-z", "A-Z")
	cmd.Stdin = strings.NewReader("some text")
	out, err := cmd.Output()
	fmt.Printf("%s %v\n", out, err)
	// Output: SOME TEXT <nil>
}

func ExampleCmd_StdinPipe() {
	h, done := exampleHost()
	defer done()
	cmd := h.Command(context.Background(), "fast", "sort")
	cmd.Stdout = os.Stdout
	stdin, err := cmd.StdinPipe()
	if err != nil {
		log.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	io.WriteString(stdin, "one\ntwo\nthree\n")
	stdin.Close()
	fmt.Println(cmd.Wait())
	// Output:
	// one
	// three
	// two
	// <nil>
}

// The end of a command, and what kept it from running, are told apart.
func ExampleExitError() {
	h, done := exampleHost()
	defer done()
	for _, script := range []string{"echo no such luck >&2; exit 3", "kill -TERM $$", "exec missing-program", ""} {
		args := []string{"sh", "-c", script}
		if script == "" {
			args = []string{"missing-program"}
		}
		_, err := h.Command(context.Background(), "fast", args...).Output()
		exit, ended := errors.AsType[*host.ExitError](err)
		switch {
		case ended && exit.Signal != 0:
			fmt.Println("ended by a signal:", exit.Signal)
		case ended && exit.Code == 3:
			fmt.Printf("exited with %d and said: %s", exit.Code, exit.Stderr)
		case ended:
			fmt.Println("exited with", exit.Code)
		case errors.Is(err, shared.ErrNotFound):
			fmt.Println("did not run: there is no such command")
		default:
			fmt.Println("its sandbox failed:", err)
		}
	}
	// Output:
	// exited with 3 and said: no such luck
	// ended by a signal: terminated
	// exited with 127
	// did not run: there is no such command
}

// An engine can run in this process: one of an embedder's own, or one for tests.
func ExampleOptions() {
	dir, remove := project()
	defer remove()
	ctx := context.Background()
	h, err := host.New(ctx, host.Options{
		Inject:    map[string]shared.Engine{"noop": noop.New()},
		Sandboxes: map[string]host.Definition{"open": {Engine: "noop"}},
		Workspace: host.WorkspaceOptions{Root: dir},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close()

	cmd := h.Command(ctx, "open", "echo", "without isolation")
	out, err := cmd.Output()
	fmt.Printf("%s%v\n", out, err)
	fmt.Println(cmd.Report().Decision, "by rule", cmd.Report().Rule)
	// Output:
	// without isolation
	// <nil>
	// unsandboxed by rule engine-named-unconfined
}

// Check finds mistakes before there is a command to run.
func ExampleHost_Check() {
	dir, remove := project()
	defer remove()
	ctx := context.Background()
	h, err := host.New(ctx, host.Options{
		Builtins: builtins,
		Sandboxes: map[string]host.Definition{
			"fast":  {Engine: engine()},
			"typed": {Engine: engine(), BindPaths: []host.Bind{{Host: "/usr/shrae"}}},
		},
		Workspace: host.WorkspaceOptions{Root: dir},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close()

	for _, name := range h.SandboxNames() {
		err := h.Check(ctx, name)
		if fault, ok := errors.AsType[*shared.Error](err); ok {
			fmt.Printf("%s: %s is at fault\n", name, fault.Attribute)
			continue
		}
		fmt.Printf("%s: %v\n", name, err)
	}
	// Output:
	// fast: <nil>
	// typed: bind_paths[0] is at fault
}

// Explain tells what would happen, and runs nothing.
func ExampleCmd_Explain() {
	h, done := exampleHost()
	defer done()
	cmd := h.Command(context.Background(), "fast", "npm", "test")
	cmd.Env = []string{"NODE_ENV=test"}
	e, err := cmd.Explain()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.Sandbox, e.Command.Args)
	for _, v := range e.Env {
		if v.Name == "CI" || v.Name == "NODE_ENV" {
			fmt.Printf("%s comes from %s\n", v.Name, v.Origin)
		}
	}
	// Output:
	// fast [npm test]
	// CI comes from env
	// NODE_ENV comes from command
}

func ExampleApprover() {
	dir, remove := project()
	defer remove()
	ctx := context.Background()
	h, err := host.New(ctx, host.Options{
		Builtins:  builtins,
		Sandboxes: map[string]host.Definition{"fast": {Engine: engine()}},
		Workspace: host.WorkspaceOptions{Root: dir},
		Approvals: host.ApprovalOptions{AllowBypass: true},
		Approver: func(_ context.Context, r host.ApprovalRequest) (host.Approval, error) {
			// All of the request is the command's or its caller's word, and none of it fit for a terminal.
			fmt.Printf("%q without a sandbox, with %q: %s\n", r.Args, r.Env, r.Decision.Rule)
			if r.Script != "" || len(r.Env) > 0 || !slices.Equal(r.Args, []string{"echo", "hello"}) {
				return host.Refuse, nil
			}
			return host.ApproveOnce, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close()
	for _, word := range []string{"hello", "something else"} {
		cmd := h.Command(ctx, "fast", "echo", word)
		cmd.NoSandbox = true
		out, err := cmd.Output()
		if denied, ok := errors.AsType[*host.DeniedError](err); ok {
			fmt.Println("refused by the Approver:", denied.Refused())
			continue
		}
		fmt.Printf("%s%v\n", out, err)
	}
	// Output:
	// ["echo" "hello"] without a sandbox, with []: approval-needed
	// hello
	// <nil>
	// ["echo" "something else"] without a sandbox, with []: approval-needed
	// refused by the Approver: true
}
