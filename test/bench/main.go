// Bench compares sbxhost with a plain line of bubblewrap's, on this machine, in one run:
//
//	go run ./test/bench -bin bin
//
//	engines  one command in each engine, with all that is protected by default, in a
//	         repository of 1,000 files: by the library, with a session, prepared, with
//	         masks, with overlays, and by the command line; and eight at once
//	served   commands through the server of sbx, and of an agent, with the configuration that
//	         sbxhost init writes; and what a bare client, server, engine and init cost
//	floor    what a bare host and plugin cost, by go-plugin and gRPC alone
//	search   one-shot runs in large workspaces, by default and where a pattern has all searched
//	network  a list of names beside no network, and what goes through the gate beside
//	         what goes directly: small requests, and a download
//	review   git status in a review beside the same on the workspace itself, and what it
//	         takes to list and to apply 2,000 changes
//	memory   what a one-shot host and its engine have resident
//
// -only takes a pattern of these names.
//
// The promise: what is compared takes turns, round by round, so that load from
// elsewhere falls on all alike; and nothing in the product is there for the
// measuring. Ratios are what to read; milliseconds are of this machine and this
// moment. Each section has goals.
//
// The limits: Linux with bubblewrap, curl and git, and the binaries that `make build` makes. A
// missed goal is printed and is no failure: the exit status is 0 unless something
// could not be measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// options are the command line.
type options struct {
	bin    string
	rounds int
	bytes  int64
	files  int
	only   *regexp.Regexp // nil: all sections
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.bin, "bin", "bin", "`directory` with what make build makes")
	fs.IntVar(&o.rounds, "n", 200, "`rounds` of each comparison")
	fs.Int64Var(&o.bytes, "bytes", 2<<30, "`bytes` of a download")
	fs.IntVar(&o.files, "files", 100_000, "`files` in a large workspace, and of the repository whose status is asked for in a review")
	fs.Func("only", "measure the sections alone whose names match `regexp`", func(text string) (err error) {
		o.only, err = regexp.Compile(text)
		return err
	})
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 || o.rounds < 1 || o.files < 1000 || o.bytes < 1 {
		return o, errors.New("bench takes no arguments, and needs at least -n 1, -files 1000 and -bytes 1")
	}
	bin, err := filepath.Abs(o.bin)
	o.bin = bin
	return o, err
}

func run(args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		r := report{medians: map[string]float64{}}
		if err = bench(ctx, o, &r, stderr); err == nil {
			_, err = io.WriteString(stdout, r.String())
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 1
	}
	return 0
}

func bench(ctx context.Context, o options, r *report, stderr io.Writer) (err error) {
	s, err := newScene(o.bin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	measured := 0
	for _, section := range []struct {
		name    string
		measure func(context.Context, *scene, options, *report)
	}{
		{"engines", measureEngines}, {"served", measureServed}, {"floor", measureFloor}, {"search", measureSearch}, {"network", measureNetwork}, {"review", measureReview}, {"memory", measureMemory},
	} {
		if o.only != nil && !o.only.MatchString(section.name) {
			continue
		}
		measured++
		fmt.Fprintf(stderr, "measuring %s ...\n", section.name)
		if err := failureOf(func() { section.measure(ctx, s, o, r) }); err != nil {
			return fmt.Errorf("%s: %w", section.name, err)
		}
	}
	if measured == 0 {
		return fmt.Errorf("-only %v: no section has such a name", o.only)
	}
	return nil
}

// failure is the error that ends a measurement.
type failure struct{ error }

// check ends the measurement if there is an error.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// failureOf returns the error that ended a measurement.
func failureOf(measure func()) (err error) {
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case failure:
			err = reason.error
		default:
			panic(reason)
		}
	}()
	measure()
	return nil
}
