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
	"path/filepath"
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

// logEnv names the environment variable with the level from which an engine
// process logs: trace, debug, info, warn (the default), error or off.
const logEnv = "SBXHOST_LOG"

// shutdownTime bounds what an engine process does for its commands at its own
// end; its launcher and the kernel do the rest.
const shutdownTime = 10 * time.Second

// Serve is the whole main of an engine's program: it serves engine to the host
// that started the process and never returns, but exits the process.
//
// It exits with status 0 when the host asks for it, when the host is gone, and
// upon SIGTERM, after having killed all commands.
//
// A process that no host has started says what it is for and exits with status
// 1. With the argument describe it prints its [Info] as JSON, with -version its
// version, and with -debug it serves until it is interrupted, for a host that
// is told by the variable SBXHOST_REATTACH_ENGINES.
//
// Its logs go to stderr, one JSON object a line, as go-plugin's hosts expect. An author
// logs by package log: a text that begins with [DEBUG], [WARN] or [ERROR] has that level, any other
// is info, and the variable SBXHOST_LOG says from which level on, warn where it is not set. What the engine
// itself prints to os.Stderr or os.Stdout goes there, too, and hosts take it for debug. Standard input becomes the null
// device. Descriptors that the process was started with are not inherited by what it
// starts. Hosts have it started with GOMAXPROCS=1: an engine that computes in this
// process can set it to more from a goroutine of its own.
func Serve(engine Engine) {
	sandboxinit.Hook() // before anything else: it may be what this process is for
	// What the host was started with, and a pinned executable: Go's own files have
	// the flag, so that no command inherits what an engine does not hand to it.
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

// takeLog has what the engine's author logs by package log be a part of the engine's own log.
func takeLog(logger hclog.Logger) {
	log.SetFlags(0)
	log.SetOutput(logger.StandardWriter(&hclog.StandardLoggerOptions{InferLevels: true}))
}

// serve serves the host that started this process until that, or its host's end.
func serve(engine Engine, log hclog.Logger) error {
	token := os.Getenv(wire.TokenEnv)
	os.Unsetenv(wire.TokenEnv)
	os.Unsetenv(wire.ProcessorsEnv) // the runtime knows it, and nobody inherits it
	channel, err := channelFromEnv()
	if err != nil {
		return err
	}
	if err := detachStdin(); err != nil {
		return err
	}
	s := newServer(engine, log)
	var early sync.WaitGroup
	end := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
		defer cancel()
		if err := s.shutdown(ctx); err != nil {
			log.Warn("ending what still runs", "error", err)
		}
		s.enough()
		early.Wait()
		removeSocketDir(os.Getenv(plugin.EnvUnixSocketDir))
		os.Exit(0)
	})
	// Before there is anything that its end has to end.
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() {
		<-terminated
		end()
	}()
	// A dead host's end of stderr must not kill the engine before it has ended
	// its commands. To ignore the signal would be inherited by them. Nor must
	// an interrupt from a terminal, which is the host's to act upon.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, os.Interrupt)
	if signal.Ignored(syscall.SIGHUP) { // of nohup, and likewise
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	if p, ok := engine.(EarlyStarter); ok {
		var ctx context.Context
		ctx, s.enough = context.WithCancel(context.Background())
		early.Go(func() { p.StartEarly(ctx) })
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
	// The host reads one line there, and an engine that prints must not be the
	// one to write it.
	stdout := os.Stdout
	os.Stdout = os.Stderr
	if err := l.announce(stdout); err != nil {
		return err
	}
	if err := l.serve(); err != nil {
		log.Error("the connection to the host broke", "error", err)
	}
	end()
	return nil
}

// introduce answers a person who has started an engine by hand.
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
		case "debug":
			if err := serveDebug(engine, stderr); err != nil {
				fmt.Fprintln(stderr, err)
				return 1
			}
			return 0
		}
	}
	fmt.Fprintf(stderr, "This is the sandbox engine %q: %s.\n"+
		"It is started by a program that runs commands in sandboxes, and does nothing by itself.\n"+
		"Try the argument describe, -version or -debug.\n", info.Name, info.Doc)
	return 1
}

func logLevel() hclog.Level {
	if level := hclog.LevelFromString(os.Getenv(logEnv)); level != hclog.NoLevel {
		return level
	}
	return hclog.Warn
}

// removeSocketDir removes the directory that the host made for this engine's
// socket alone, when the host may not be there to do it. It removes sockets
// and then what is empty: a path that is wrong costs nothing.
func removeSocketDir(dir string) {
	if dir == "" {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Type() == os.ModeSocket {
			os.Remove(dir + "/" + e.Name())
		}
	}
	os.Remove(dir)
	// sbxhost keeps go-plugin's directory in one of its own, and a host that
	// was killed cannot remove it.
	if parent := filepath.Dir(dir); strings.HasPrefix(filepath.Base(parent), wire.TempDirPrefix) {
		os.Remove(parent)
	}
}
