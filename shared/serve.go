//go:build unix

package shared

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/internal/proc"
	"github.com/sbxhost/sbxhost/internal/wire"
)

// logEnv names the environment variable with the lowest level that an engine process logs: trace,
// debug, info, warn (the default), error or off.
const logEnv = "SBXHOST_LOG"

// shutdownTime bounds the cleanup of an engine process at its own end. Its launcher and the kernel
// do the rest.
const shutdownTime = 10 * time.Second

// Serve is the main of an engine's program. It serves engine to the host that started the process,
// and exits the process; it never returns.
//
// It exits with status 0 when the host asks for it, when the host is gone, and upon SIGTERM, after
// it has killed all commands.
//
// Without a host, the process prints its purpose and exits with status 1. With the argument
// describe it prints its [Info] as JSON, with -version its version.
//
// Serve logs to stderr, one JSON object a line, as go-plugin's hosts expect. An engine's author
// logs with package log: a text that begins with [DEBUG], [WARN] or [ERROR] has that level, all
// others have info. The variable SBXHOST_LOG is the lowest level to log, by default warn. Other
// output to os.Stderr or os.Stdout also goes there, and hosts log it as debug. Standard input
// becomes the null device. Child processes do not inherit the descriptors that this process was
// started with. Hosts start it with GOMAXPROCS=1; an engine that computes in this process can set
// more, from a goroutine of its own.
func Serve(engine Engine) {
	sandboxinit.Hook() // first: this process may be an init
	// This covers what the host inherited, and a pinned executable. Go's own files have the flag.
	// So no command inherits a descriptor that the engine does not pass to it.
	_ = proc.CloseOnExecFrom(3)
	if os.Getenv(wire.Handshake.MagicCookieKey) != wire.Handshake.MagicCookieValue {
		os.Exit(introduce(engine, os.Args, os.Stdout, os.Stderr))
	}
	log := hclog.New(&hclog.LoggerOptions{Level: logLevel(), Output: os.Stderr, JSONFormat: true})
	takeLog(log)
	err := takeUsage()
	if err == nil {
		err = serve(engine, log)
	}
	if err != nil {
		log.Error("the engine cannot start", "error", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// takeLog puts the author's messages from package log into the engine's log.
func takeLog(logger hclog.Logger) {
	log.SetFlags(0)
	log.SetOutput(logger.StandardWriter(&hclog.StandardLoggerOptions{InferLevels: true}))
}

// serve serves the host until it asks to stop, or ends.
func serve(engine Engine, log hclog.Logger) error {
	token := os.Getenv(wire.TokenEnv)
	os.Unsetenv(wire.TokenEnv)
	os.Unsetenv(wire.ProcessorsEnv) // the runtime has read it, and no child may inherit it
	channel, err := channelFromEnv()
	if err != nil {
		return err
	}
	if err := detachStdin(); err != nil {
		return err
	}
	s := newServer(engine, log)
	var ctx context.Context
	ctx, s.enough = context.WithCancel(context.Background()) // now: the end can come before StartEarly
	var early sync.WaitGroup
	end := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
		defer cancel()
		if err := s.shutdown(ctx); err != nil {
			log.Warn("ending the commands that still run", "error", err)
		}
		s.enough()
		early.Wait()
		os.Exit(0)
	})
	// Before the first command, which a signal must end.
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() {
		<-terminated
		end()
	}()
	// A write to a dead host's stderr must not kill the engine before it has ended its commands.
	// The signals are not ignored, because commands would inherit that. An interrupt from a
	// terminal is for the host.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, os.Interrupt)
	if signal.Ignored(syscall.SIGHUP) { // as nohup does
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	go func() {
		if err := s.inbox.receive(channel); err != nil {
			log.Warn("the channel to the host broke", "error", err)
		}
		end()
	}()
	l, err := s.listen(os.Getenv(plugin.EnvUnixSocketDir), token)
	if err != nil {
		return err
	}
	// The host reads one line from stdout, and an engine's own output must not be that line.
	stdout := os.Stdout
	os.Stdout = os.Stderr
	if err := l.announce(stdout); err != nil {
		return err
	}
	if p, ok := engine.(EarlyStarter); ok {
		early.Go(func() { p.StartEarly(ctx) })
		runtime.Gosched() // StartEarly forks while the host connects, and has begun before the first call
	}
	if err := l.Serve(l.listener); err != nil {
		log.Error("the connection to the host broke", "error", err)
	}
	end()
	return nil
}

// introduce answers a person who started an engine by hand.
func introduce(engine Engine, args []string, stdout, stderr io.Writer) int {
	info, err := engine.Info(context.Background())
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	print := func(a ...any) int {
		if _, err := fmt.Fprintln(stdout, a...); err != nil {
			fmt.Fprintln(stderr, err)
			return 1
		}
		return 0
	}
	if len(args) == 2 {
		switch strings.TrimLeft(args[1], "-") {
		case "version":
			return print(info.Name, info.Version)
		case "describe":
			text, err := json.MarshalIndent(info, "", "  ")
			if err != nil {
				fmt.Fprintln(stderr, err)
				return 1
			}
			return print(string(text))
		}
	}
	fmt.Fprintf(stderr, "This is the sandbox engine %q: %s.\n"+
		"It is started by a program that runs commands in sandboxes, and does nothing by itself.\n"+
		"Try the argument describe or -version.\n", info.Name, info.Doc)
	return 1
}

func logLevel() hclog.Level {
	if level := hclog.LevelFromString(os.Getenv(logEnv)); level != hclog.NoLevel {
		return level
	}
	return hclog.Warn
}
