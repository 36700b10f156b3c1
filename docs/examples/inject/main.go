// Inject is a program with engines that run inside of itself: one of its own, as tests
// have it, and the engine native.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/plugins/native"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
)

// plain runs commands as they are.
func plain() shared.Engine {
	return cmdengine.New(cmdengine.Config{
		Info: shared.Info{Name: "plain", Version: "1.0.0", Features: shared.Features{shared.FeatureUnconfined}},
		Launch: func(_ *shared.Spec, cmd *shared.Command) (*exec.Cmd, error) {
			return &exec.Cmd{Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir}, nil
		},
	})
}

func main() {
	host.ServeBuiltin() // no engines: native executes this program for its inits alone
	ctx := context.Background()
	h, err := host.New(ctx, host.Options{
		Inject:    map[string]shared.Engine{"plain": plain(), "native": native.New()},
		Sandboxes: map[string]host.Definition{"test": {Engine: "plain"}, "safe": {Engine: "native"}},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer h.Close()
	for _, sandbox := range []string{"test", "safe"} {
		out, err := h.Command(ctx, sandbox, "uname", "-n").Output()
		fmt.Printf("%s: %s%v\n", sandbox, out, err)
	}
}
