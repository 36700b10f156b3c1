// Command sbxhost-telemetry exports what sbxhost tells it of commands, as
// OpenTelemetry traces and metrics. sbxhost starts it where the environment asks
// for telemetry, and it reads the standard OTEL_ variables; it is of no use by
// itself. Standing beside sbxhost is all the installation it needs.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run(os.Stdin, os.Stderr, os.Getenv)) }

// run exports the records of in and returns the status to exit with.
func run(in io.Reader, stderr io.Writer, getenv func(string) string) int {
	// The terminal's signals are for the command; sbxhost decides how long it
	// waits, and kills.
	signal.Ignore(syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP)
	if err := export(context.Background(), in, getenv); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}
