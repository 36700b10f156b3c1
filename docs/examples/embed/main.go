// Embed is a program that runs commands in sandboxes of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/plugins/native"
	"github.com/sbxhost/sbxhost/shared"
)

func main() {
	builtins := host.ServeBuiltin(native.New()) // first: this program serves the engine, too
	if err := run(context.Background(), builtins); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, builtins host.Builtins) error {
	h, err := host.New(ctx, host.Options{
		Builtins: builtins,
		Sandboxes: map[string]host.Definition{
			"fast": {Engine: "native", Limits: host.Limits{Timeout: time.Minute}},
		},
	})
	if err != nil {
		return err
	}
	defer h.Close()

	out, err := h.Command(ctx, "fast", "uname", "-n").Output()
	if err != nil {
		return err
	}
	fmt.Printf("inside, this machine is called %s", out)

	cmd := h.Command(ctx, "fast")
	cmd.Script = `echo "step $1"; exit 3`
	cmd.Args = []string{"one"} // $1 of the script
	cmd.Env = []string{"CI=1"}
	cmd.Stdout = os.Stdout
	fmt.Println("the command:", describe(cmd.Run()))
	fmt.Println("decided by rule", cmd.Report().Rule)

	fmt.Println("the next:", describe(h.Command(ctx, "fast", "frobnicate").Run()))
	fmt.Println("the last:", describe(h.Command(ctx, "slow", "true").Run()))
	return nil
}

// describe tells a command's failure from that of its sandbox.
func describe(err error) string {
	if err == nil {
		return "succeeded"
	}
	if exit, ok := errors.AsType[*host.ExitError](err); ok {
		return fmt.Sprintf("ran and failed: %v, timed out: %v", exit.ExitStatus, exit.TimedOut)
	}
	switch {
	case errors.Is(err, shared.ErrNotFound), errors.Is(err, shared.ErrNotExecutable):
		return fmt.Sprintf("never ran: %v", err)
	}
	if e, ok := errors.AsType[*shared.Error](err); ok {
		return fmt.Sprintf("%s is at fault: %s; %s", e.Attribute, e.Message, e.Hint)
	}
	return fmt.Sprintf("could not be run: %v", err)
}
