package shared

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// LogEnv names the environment variable with the level from which an engine
// process logs: trace, debug, info, warn (the default), error or off.
const LogEnv = "SBXHOST_LOG"

// RuntimeDirPrefix begins the name of the private directory in which a host
// keeps an engine's socket directory. An engine that outlives its host removes
// both.
const RuntimeDirPrefix = "sbxhost-"

// shutdownTime bounds what an engine process does for its commands at its own
// end; its launcher and the kernel do the rest.
const shutdownTime = 10 * time.Second

// streamGC is how much garbage an engine lets lie, in percent of what is in use,
// once stdio is streamed: half of Go's default, so that the heap is collected at
// 2 MiB and not at 4. Next to what is copied then a collection, of less than a
// MiB that is in use, costs nothing; a command that is handed its files never
// waits for one more.
const streamGC = 50

// Serve is the whole main of an engine's program: it serves engine to the host
// that started the process and never returns, but exits the process.
//
// It exits with status 0 when the host asks for it, when the host is gone, and
// upon SIGTERM, after having killed all commands.
//
// A process that no host has started says what it is for and exits with status
// 1. With the argument describe it prints its [Info] as JSON, with -version its
// version, and with -debug it serves until it is interrupted, for a host that
// is told by [ReattachEnv].
//
// It sets GOMAXPROCS to 1 unless the environment sets it, as hosts do. An engine that
// computes in this process can set it to more from a goroutine of its own.
// With the first command whose stdio is streamed it sets the percentage of
// garbage (GOGC) to 50, unless the environment sets that.
//
// Its logs go to stderr, one JSON object a line, as go-plugin's hosts expect.
// Standard input becomes the null device; the engine's own output must not go
// to os.Stdout, which is the host's. Descriptors that the process was started with are
// not inherited by what it starts.
func Serve(engine Engine) {
	sandboxinit.Hook() // before anything else: it may be what this process is for
	// What the host was started with, and a pinned executable: Go's own files have
	// the flag, so that no command inherits what an engine does not hand to it.
	_ = sandboxinit.CloseOnExecFrom(3)
	if os.Getenv(Handshake.MagicCookieKey) != Handshake.MagicCookieValue {
		os.Exit(introduce(engine, os.Args, os.Stdout, os.Stderr))
	}
	log := hclog.New(&hclog.LoggerOptions{Level: logLevel(), Output: os.Stderr, JSONFormat: true})
	token := callTokenFromEnv()
	channel, err := channelFromEnv()
	if err == nil {
		err = detachStdin()
	}
	if err != nil {
		log.Error("the engine cannot start", "error", err)
		os.Exit(1)
	}
	var in *inbox
	if channel != nil {
		in = newInbox()
	}
	s := newServer(engine, in, log)
	var early sync.WaitGroup
	end := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
		defer cancel()
		if err := s.shutdown(ctx); err != nil {
			log.Warn("ending what still runs", "error", err)
		}
		s.enough()
		early.Wait()
		if channel != nil {
			removeSocketDir(os.Getenv(plugin.EnvUnixSocketDir))
		}
		os.Exit(0)
	})
	// Before there is anything that its end has to end.
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() {
		<-terminated
		end()
	}()
	if p, ok := engine.(EarlyStarter); ok {
		var ctx context.Context
		ctx, s.enough = context.WithCancel(context.Background())
		early.Go(func() { p.StartEarly(ctx) })
	}
	// The host waits for the handshake, and then connects: what takes a while is
	// done meanwhile, and no sandbox is opened before.
	s.preparing.Go(func() {
		// A dead host's end of stderr must not kill the engine before it has ended
		// its commands. To ignore the signal would be inherited by them. Nor must
		// an interrupt from a terminal, which is the host's to act upon.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, os.Interrupt)
		if signal.Ignored(syscall.SIGHUP) { // of nohup, and likewise
			signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
		}
		Rehearse()
	})
	if channel != nil {
		go func() {
			if err := in.receive(channel); err != nil && err != io.EOF {
				log.Warn("the channel to the host broke", "error", err)
			}
			end()
		}()
	}
	if _, set := os.LookupEnv(processorsEnv); set {
		os.Unsetenv(processorsEnv) // the runtime knows it, and nobody inherits it
	} else {
		runtime.GOMAXPROCS(1)
	}
	if os.Getenv("GOGC") == "" {
		s.streams = sync.OnceFunc(func() { debug.SetGCPercent(streamGC) })
	}
	l, err := s.offer(token)
	if err != nil {
		log.Error("the engine cannot start", "error", err)
		os.Exit(1)
	}
	if err := l.serve(); err != nil {
		log.Error("the connection to the host broke", "error", err)
	}
	end()
}

// processorsEnv names the variable by which Go's runtime starts with so many
// processors. What an engine does is to pass on and to wait: waking a second one
// for each step costs a tenth of a command's time.
const processorsEnv = "GOMAXPROCS"

// OneProcessor is for the environment of an engine's process. One that is not
// written in Go has no use for it.
const OneProcessor = processorsEnv + "=1"

// offer listens and tells the host where.
func (s *server) offer(t callToken) (*listening, error) {
	stdout, ownStdout, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stderr, ownStderr, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	l, err := s.listen(os.Getenv(plugin.EnvUnixSocketDir), t, stdout, stderr)
	if err != nil {
		return nil, err
	}
	// The host reads one line there, and an engine that prints must not be the
	// one to write it.
	hosts := os.Stdout
	os.Stdout, os.Stderr = ownStdout, ownStderr
	return l, l.announce(hosts)
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
	fmt.Fprintf(stderr, "This is the sbxhost engine %q: %s.\n"+
		"It is started by sbxhost, or by a program with sbxhost inside, and does nothing by itself.\n"+
		"Try `sbxhost engines probe %s`, or the argument describe, -version or -debug.\n", info.Name, info.Doc, info.Name)
	return 1
}

func logLevel() hclog.Level {
	if level := hclog.LevelFromString(os.Getenv(LogEnv)); level != hclog.NoLevel {
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
	if parent := filepath.Dir(dir); strings.HasPrefix(filepath.Base(parent), RuntimeDirPrefix) {
		os.Remove(parent)
	}
}
