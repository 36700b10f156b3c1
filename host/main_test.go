package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/plugins/bwrap"
	"github.com/sbxhost/sbxhost/plugins/native"
	"github.com/sbxhost/sbxhost/plugins/noop"
)

// builtins makes the test binary serve the engines, as a program's main does.
var builtins host.Builtins

var ctxBackground = context.Background()

func TestMain(m *testing.M) {
	if how := os.Getenv(muteEngine); how != "" {
		serveNothing(how)
	}
	builtins = host.ServeBuiltin(native.New(), bwrap.New(), noop.New())
	if root := os.Getenv(countedEnv); root != "" {
		runCounted(root)
		return
	}
	if os.Getenv(hostProcessEnv) != "" {
		runHostProcess()
		return
	}
	os.Exit(runTests(m))
}

// runTests keeps what sbxhost remembers out of the home of whoever runs the tests.
func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sbxhost-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	os.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	return m.Run()
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// realTemp is a temporary directory without symlinks in its path, as on macOS.
func realTemp(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return dir
}

const hostProcessEnv = "SBXHOST_TEST_HOST"

// runHostProcess is the main of such a program.
func runHostProcess() {
	h, err := host.New(ctxBackground, host.Options{
		Builtins:  builtins,
		Workspace: host.WorkspaceOptions{Root: os.Getenv(hostProcessEnv)},
		Sandboxes: map[string]host.Definition{"fast": {Engine: "native"}},
		Session:   host.SessionOptions{OneShot: true}, // each command alone, started by the engine itself
		OneShot:   true,
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

// countedEnv names the workspace of a program that runs as many commands as its argument says.
const countedEnv = "SBXHOST_TEST_COUNTED"

func runCounted(root string) {
	n, _ := strconv.Atoi(os.Args[1])
	h, err := host.New(ctxBackground, host.Options{Builtins: builtins, Workspace: host.WorkspaceOptions{Root: root},
		Sandboxes: map[string]host.Definition{"fast": {Engine: "native"}}, OneShot: true}) // which prepares nothing: the number is exact
	if err == nil {
		for range n {
			if err = h.Command(ctxBackground, "fast", "true").Run(); err != nil {
				break
			}
		}
		h.Close()
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
