// Command sbxhost-telemetry exports sbxhost's records of commands, as OpenTelemetry traces and
// metrics. sbxhost starts it if the environment asks for telemetry, and it reads the standard OTEL_
// variables; alone it is useless. To install it, put it next to sbxhost.
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

// run exports the records of in and returns the exit status.
func run(in io.Reader, stderr io.Writer, getenv func(string) string) int {
	// The terminal's signals are for the command; sbxhost decides how long it waits, and kills this
	// process.
	signal.Ignore(syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP)
	if err := export(context.Background(), in, getenv); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}
