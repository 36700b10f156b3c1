package host_test

import (
	"context"
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
	os.Exit(m.Run())
}
