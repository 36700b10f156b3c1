// Bench compares sbxhost with the bubblewrap that it is made of, on this
// machine, in one run:
//
//	go run ./test/bench -bin bin
//
//	latency      one command: raw, by the library in a session, by the command line;
//	             and by that with telemetry
//	sessions     overlays of a session against none, and a session's first command
//	protections  a workspace with a repository: what the filter, the search of the
//	             workspace, protected names, masks and limits cost, each, and
//	             a one-shot run with all that are on by default
//	throughput   commands a second, one and eight at once
//	output       how fast what a command writes arrives
//	memory       what host and engine have resident
//	phases       where the time of a one-shot run goes
//	binaries     what is linked, and what initialising it costs before main
//
// -only takes a pattern of these names.
//
// The promise: what is compared takes turns, round by round, so that load from
// elsewhere falls on all alike; raw bubblewrap gets the mounts, flags and filter
// of system calls that the engine gives it without a session, taken from the
// engine's own plan, but for protected names, whose places sbxhost holds while
// its own commands run; beside the protections stands bubblewrap without the
// filter; and nothing in the product is there for the measuring. Ratios are what
// to read; milliseconds are of this machine and this moment.
//
// The limits: Linux with bubblewrap, and the binaries that `make build` makes.
// The phases need strace, whose own cost is shown beside them. A missed target
// is printed and is no failure: the exit status is 0 unless something could
// not be measured.
package main

import (
	"context"
	"encoding/json"
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
	playRole()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// options are the command line.
type options struct {
	bin    string
	rounds int
	bytes  int64
	quick  bool
	json   string
	only   *regexp.Regexp // nil: all sections
}

const (
	quickRounds = 20
	quickBytes  = 256 << 20
)

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.bin, "bin", "bin", "`directory` with what make build makes")
	fs.IntVar(&o.rounds, "n", 200, "`rounds` of the latency table; the other parts follow it")
	fs.Int64Var(&o.bytes, "bytes", 2<<30, "`bytes` that a command writes to its output")
	fs.BoolVar(&o.quick, "quick", false, "a short run: less of all that is not set")
	fs.StringVar(&o.json, "json", "", "write the results to `file`, too")
	fs.Func("only", "measure the sections alone whose names match `regexp`", func(text string) (err error) {
		o.only, err = regexp.Compile(text)
		return err
	})
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	set := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { set[f.Name] = true })
	if o.quick && !set["n"] {
		o.rounds = quickRounds
	}
	if o.quick && !set["bytes"] {
		o.bytes = quickBytes
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("bench takes no arguments, got %q", fs.Args())
	case o.rounds < 1:
		return o, fmt.Errorf("-n %d: at least one round is needed", o.rounds)
	case o.bytes < 1:
		return o, fmt.Errorf("-bytes %d: at least one byte is needed", o.bytes)
	}
	bin, err := filepath.Abs(o.bin)
	o.bin = bin
	return o, err
}

// results are everything measured; the JSON form is for machines.
type results struct {
	Machine     machine          `json:"machine"`
	Rounds      int              `json:"rounds"`
	Latency     []latencyRow     `json:"latency,omitempty"`
	Sessions    *sessionTable    `json:"sessions,omitempty"`
	Engines     *engineTable     `json:"engines,omitempty"`
	Protections *protectionTable `json:"protections,omitempty"`
	Throughput  []throughputRow  `json:"throughput,omitempty"`
	Output      *outputTable     `json:"output,omitempty"`
	Memory      []memoryRow      `json:"memory,omitempty"`
	Phases      *phaseTable      `json:"phases,omitempty"`
	Binaries    []binaryRow      `json:"binaries,omitempty"`
	Targets     []target         `json:"targets"`
}

func run(args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = bench(ctx, o, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 1
	}
	return 0
}

func bench(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	s, err := newScene(ctx, o.bin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()

	r := results{Machine: describeMachine(s.raw.argv[0]), Rounds: o.rounds}
	steps := []struct {
		name string
		do   func() error
	}{
		{"latency", func() (err error) { r.Latency, err = measureLatency(ctx, s, o.rounds); return }},
		{"sessions", func() error { return keep(&r.Sessions)(measureSessions(ctx, s, o.rounds)) }},
		{"engines", func() error { return keep(&r.Engines)(measureEngines(ctx, s, o.rounds)) }},
		{"protections", func() error { return keep(&r.Protections)(measureProtections(ctx, s, o.rounds)) }},
		{"throughput", func() (err error) { r.Throughput, err = measureThroughput(ctx, s, o.rounds); return }},
		{"output", func() error { return keep(&r.Output)(measureOutput(ctx, s, o.rounds, o.bytes)) }},
		{"memory", func() (err error) { r.Memory, err = measureMemory(ctx, s, o.bytes); return }},
		{"phases", func() error { return keep(&r.Phases)(measurePhases(ctx, s, o.rounds, r.Latency)) }},
		{"binaries", func() (err error) { r.Binaries, err = inspectBinaries(ctx, s.bin, o.rounds); return }},
	}
	measured := 0
	for _, step := range steps {
		if o.only != nil && !o.only.MatchString(step.name) {
			continue
		}
		measured++
		fmt.Fprintf(stderr, "measuring %s ...\n", step.name)
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if measured == 0 {
		return fmt.Errorf("-only %v: no section has such a name", o.only)
	}
	r.Targets = judge(&r)
	if err := render(stdout, &r); err != nil || o.json == "" {
		return err
	}
	text, err := json.MarshalIndent(&r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(o.json, append(text, '\n'), 0o644)
}

// keep stores a table unless there is an error.
func keep[T any](at **T) func(T, error) error {
	return func(table T, err error) error {
		if err == nil {
			*at = &table
		}
		return err
	}
}
