// Inject is a program with an engine that runs inside of itself, as tests and
// programs with mechanisms of their own have it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/sbxhost/sbxhost/host"
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
	ctx := context.Background()
	h, err := host.New(ctx, host.Options{
		Inject:    map[string]shared.Engine{"plain": plain()},
		Sandboxes: map[string]host.Definition{"test": {Engine: "plain"}},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer h.Close()
	out, err := h.Command(ctx, "test", "echo", "hi").Output()
	fmt.Printf("%s%v\n", out, err)
}
