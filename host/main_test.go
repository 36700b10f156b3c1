package host_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/plugins/bwrap"
	"github.com/sbxhost/sbxhost/plugins/noop"
)

// builtins makes the test binary serve the engines, as a program's main does.
var builtins host.Builtins

var ctxBackground = context.Background()

func TestMain(m *testing.M) {
	builtins = host.ServeBuiltin(bwrap.New(), noop.New())
	if os.Getenv(hostProcessEnv) != "" {
		runHostProcess()
		return
	}
	os.Exit(run(m))
}

// run keeps what sbxhost remembers out of the home of whoever runs the tests.
func run(m *testing.M) int {
	state, err := os.MkdirTemp("", "sbxhost-state-")
	if err == nil {
		err = os.Setenv("XDG_STATE_HOME", state)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(state)
	return m.Run()
}

const hostProcessEnv = "SBXHOST_TEST_HOST"

// runHostProcess is the main of such a program.
func runHostProcess() {
	h, err := host.New(ctxBackground, host.Options{
		Builtins:  builtins,
		Workspace: host.WorkspaceOptions{Root: os.Getenv(hostProcessEnv)},
		Sandboxes: map[string]host.Definition{"fast": {Engine: "bwrap"}},
	})
	if err == nil {
		cmd := h.Command(ctxBackground, "fast", "sh", "-c", "(setsid sh -c 'trap \"\" TERM HUP; sleep 1000' &) ; echo ready; sleep 1000")
		cmd.Stdout = os.Stdout
		err = cmd.Run()
		fmt.Fprintln(os.Stderr, "command:", err)
		again := h.Command(ctxBackground, "fast", "echo", "again")
		again.Stdout = os.Stderr
		fmt.Fprintln(os.Stderr, "next:", again.Run())
		h.Close()
	}
	fmt.Fprintln(os.Stderr, "end:", err)
}
