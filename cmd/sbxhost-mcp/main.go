// Command sbxhost-mcp lets agents run commands in sandboxes, by the Model Context Protocol on its
// standard input and output.
//
// The promise: the user's configuration says what an agent may do, and no argument of a tool
// widens that. Nothing runs without isolation, whatever was approved. All that an agent starts ends
// with the agent's connection.
//
// The limits: an agent can do everything that its own shell could do with what the configuration
// shows and makes writable. And an agent that also has its own shell can bypass the sandbox.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/source"
	"github.com/sbxhost/sbxhost/plugins/bwrap"
	"github.com/sbxhost/sbxhost/plugins/native"
	"github.com/sbxhost/sbxhost/plugins/seatbelt"
)

func main() {
	os.Exit(run(host.ServeBuiltin(native.New(), bwrap.New(), seatbelt.New()), os.Args[1:], os.Stderr))
}

const help = `Usage: sbxhost-mcp [-config FILE]

Serve an agent by the Model Context Protocol on standard input and output. Its
tools run commands in the sandboxes of the configuration that is in force in the
current directory, as "sbxhost exec" finds it; its mcp block says which.
`

// run serves until standard input ends, or a signal comes, and returns the exit status.
func run(builtins host.Builtins, args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("sbxhost-mcp", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	explicit := flags.String("config", "", "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stderr, help)
		return 0
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
		fallthrough
	case err != nil:
		fmt.Fprintf(stderr, "sbxhost-mcp: %v\n%s", err, help)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	caller := &inforce.Caller{Dir: inforce.WorkingDir(), Environ: os.Environ(), Builtins: builtins}
	p, err := newPolicy(ctx, caller, *explicit, stderr)
	if err != nil {
		explainFailure(stderr, err)
		return 1
	}
	s := newServer(ctx, p)
	defer s.close()
	if err := s.mcp().Run(ctx, &mcp.IOTransport{Reader: messages(os.Stdin, stderr), Writer: os.Stdout}); err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) {
		explainFailure(stderr, err)
		return 1
	}
	return 0
}

// messages passes on the lines that are messages. It reports and omits other lines: such a line
// must not end what the connection runs. Only a line beyond mcp.DefaultMaxLineLength does.
func messages(from io.Reader, stderr io.Writer) io.ReadCloser {
	read, write := io.Pipe()
	go func() {
		lines := bufio.NewScanner(from)
		lines.Buffer(nil, mcp.DefaultMaxLineLength)
		for lines.Scan() {
			_, err := jsonrpc.DecodeMessage(lines.Bytes())
			if bytes.HasPrefix(bytes.TrimSpace(lines.Bytes()), []byte("[")) {
				err = errors.New("a list: since 2025-06-18, the protocol has one message a line")
			}
			if err != nil {
				fmt.Fprintf(stderr, "sbxhost-mcp: a line of standard input is no message and was left out: %v\n", err)
			} else if _, err := fmt.Fprintf(write, "%s\n", lines.Bytes()); err != nil {
				return
			}
		}
		write.CloseWithError(lines.Err()) // nil: the end
	}()
	return read
}

// explainFailure says why the server does not start. An agent's program shows this to its user.
func explainFailure(stderr io.Writer, err error) {
	if e, ok := errors.AsType[*inforce.InvalidError](err); ok {
		_ = source.Write(stderr, e.Diagnostics, false, 0)
		err = errors.New("the configuration has errors")
	}
	fmt.Fprintf(stderr, "sbxhost-mcp: %v\n", err)
	if e, ok := errors.AsType[*inforce.HintedError](err); ok {
		fmt.Fprintf(stderr, "  hint: %s\n", e.Hint)
	}
}
