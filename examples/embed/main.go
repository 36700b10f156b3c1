// Steps runs the steps of a file, each in a sandbox that the file defines, as
// many at once as their order allows. It is an example of a program with a
// configuration format of its own that has sandbox blocks in it.
//
//	steps [-file steps.hcl]
//
// Its exit status is 0 when every step succeeded, 1 when one failed, 2 when the
// file makes no sense and 130 when it was interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/hashicorp/hcl/v2"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/plugins/native"
	"github.com/sbxhost/sbxhost/plugins/noop"
)

func main() {
	builtins := host.ServeBuiltin(native.New(), noop.New()) // first: this program serves its engines, too
	ctx, kill := interrupts()
	os.Exit(run(ctx, kill, builtins, os.Args[1:], os.Stdout, os.Stderr))
}

// interrupts gives a context that ends with the first Ctrl-C, and one that ends
// with the second. Neither signal ends the program by itself: it would leave its
// sandboxes to be swept by the next.
func interrupts() (ctx, kill context.Context) {
	ctx, cancel := context.WithCancel(context.Background())
	kill, cancelAll := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		cancel()
		<-signals
		cancelAll()
	}()
	return ctx, kill
}

func run(ctx, kill context.Context, builtins host.Builtins, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("steps", flag.ContinueOnError)
	flags.SetOutput(stderr)
	name := flags.String("file", "steps.hcl", "the file with the steps")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "unexpected argument %q: the file is named by -file\n", flags.Arg(0))
		return 2
	}
	plan, files, diags := load(*name, builtins)
	tell := hcl.NewDiagnosticTextWriter(stderr, files, 80, false)
	if diags.HasErrors() {
		tell.WriteDiagnostics(diags)
		return 2
	}
	refuse := func(err error) int {
		if diags := plan.diagnose(err); diags != nil {
			tell.WriteDiagnostics(diags)
		} else {
			fmt.Fprintln(stderr, err)
		}
		return 2
	}
	h, err := host.New(ctx, host.Options{
		Builtins: builtins, Sandboxes: plan.sandboxes,
		Workspace: host.WorkspaceOptions{Root: plan.dir}, Dir: plan.dir,
		Protected: []string{plan.path}, // a step must not change what the next run does
	})
	if err != nil {
		return refuse(err)
	}
	defer h.Close()
	err = plan.run(ctx, kill, h, &console{out: stdout})
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "interrupted")
		return 130
	case errors.Is(err, errStepFailed):
		return 1
	case err != nil:
		return refuse(err)
	}
	return 0
}
