package cmdengine_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
)

// newNice is a whole engine. It runs commands at the lowest priority, which isolates
// nothing, so it claims nothing but FeatureUnconfined.
func newNice() shared.Engine {
	return cmdengine.New(cmdengine.Config{
		Info: shared.Info{
			Name: "nice", Version: "1.0.0", Doc: "runs commands at the lowest priority, without isolation",
			Features: shared.Features{shared.FeatureUnconfined},
		},
		Launch: func(_ *shared.Spec, cmd *shared.Command) (*exec.Cmd, error) {
			// Looked up here: nice would report a missing command by its own status.
			path, err := cmdengine.LookPath(cmd.Args[0], cmd.Dir, cmd.Env)
			if err != nil {
				return nil, err
			}
			return &exec.Cmd{
				Path: "/usr/bin/nice",
				Args: append([]string{"nice", "-n", "19", "--", path}, cmd.Args[1:]...),
				Env:  cmd.Env,
				Dir:  cmd.Dir,
			}, nil
		},
	})
}

// An engine is one function that translates. Its main is
// shared.Serve(newNice()).
func Example() {
	ctx := context.Background()
	sandbox, err := newNice().Open(ctx, shared.Spec{Unconfined: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sandbox.Close(ctx)
	env := []string{"PATH=/usr/bin:/bin"}

	process, err := sandbox.Start(ctx, shared.Command{Script: "echo hello; exit 3", Env: env, Dir: "/"}, shared.Stdio{Stdout: os.Stdout})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := process.Wait(ctx)
	fmt.Println(result.Status, err)

	_, err = sandbox.Start(ctx, shared.Command{Args: []string{"frobnicate"}, Env: env, Dir: "/"}, shared.Stdio{})
	fmt.Println(err)
	// Output:
	// hello
	// exit status 3 <nil>
	// "frobnicate": command not found in the command's PATH
}
