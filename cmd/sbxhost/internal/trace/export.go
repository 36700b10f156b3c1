package trace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/terminal"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/telemetry"
)

// exporterName is the program that exports, next to this program.
const exporterName = "sbxhost-telemetry"

// exportSlack is the exporter's extra time after its own patience, to report what it could not
// send.
const exportSlack = 500 * time.Millisecond

// Start begins to trace a command if the environment asks for it. It reports errors of telemetry,
// but the command runs anyway.
func Start(a *cli.App, sandbox, engine string, begin time.Time) *Span {
	s, err := New(a, sandbox, engine, begin)
	if err == nil && s != nil {
		err = s.startExporter()
	}
	if err != nil {
		a.Say(fmt.Sprintf("telemetry: %v; nothing is sent", err))
		return nil
	}
	return s
}

// startExporter starts the exporter during the start of the command, so that it costs no extra
// time.
func (s *Span) startExporter() error {
	exporter, err := hostpath.Beside(exporterName)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("it is asked for by OTEL_ variables, and %s is not there: install it beside sbxhost", exporterName)
	} else if err != nil {
		return err
	}
	s.Process = exporter.Command(context.Background())
	s.Process.Env, s.Process.Stderr, s.Process.WaitDelay = exporterEnv(s.App), &s.stderr, time.Second
	s.Process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.Stdin, err = s.Process.StdinPipe(); err != nil {
		return err
	}
	return s.Process.Start()
}

// exporterEnv is the environment that the exporter's libraries read, and no more. Its paths are
// absolute, because the exporter runs in another directory.
func exporterEnv(a *cli.App) (env []string) {
	for _, entry := range a.Environ {
		name, value, _ := strings.Cut(entry, "=")
		switch strings.ToUpper(name) {
		case "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY":
		default:
			if !strings.HasPrefix(name, "OTEL_") {
				continue
			}
		}
		file := strings.HasPrefix(name, "SSL_CERT_") || strings.HasPrefix(name, "OTEL_") && (strings.HasSuffix(name, "_CERTIFICATE") || strings.HasSuffix(name, "_CLIENT_KEY"))
		if file && value != "" {
			entry = name + "=" + a.Absolute(value)
		}
		env = append(env, entry)
	}
	return env
}

// Over notes that the command has ended: a signal now ends the remaining work instead. Signals
// still come by the relay's channel: a change of channels could lose an interrupt.
func (s *Span) Over(signals <-chan os.Signal) {
	s.record.End = time.Now()
	s.signals = signals
}

// interrupted returns the first signal that ends a command. At ^Z this process stops.
func (s *Span) interrupted() <-chan syscall.Signal {
	found := make(chan syscall.Signal, 1)
	go func() {
		for sig := range s.signals {
			if sig == syscall.SIGTSTP {
				terminal.SuspendSelf()
			} else if terminal.Ending(sig.(syscall.Signal)) {
				found <- sig.(syscall.Signal)
				return
			}
		}
	}()
	return found
}

// End reports how the command ended, and waits until that is sent, or until a signal says that
// nobody wants to wait.
func (s *Span) End(report host.Report) {
	if s == nil {
		return
	}
	r := &s.record
	r.Outcome, r.ExitCode, r.Degraded, r.DurationMS = report.Outcome, report.ExitCode, len(report.Degraded), report.DurationMS
	r.Decision, r.Rule = report.Decision, report.Rule
	if report.Engine != "" {
		r.Engine = report.Engine
	}
	if report.Signal != nil {
		r.Signal = *report.Signal
	}
	line, marshalErr := json.Marshal(r)
	if marshalErr == nil {
		_, marshalErr = s.Stdin.Write(append(line, '\n'))
	}
	s.Stdin.Close()
	waited := make(chan error, 1)
	go func() { waited <- s.Process.Wait() }()
	patience := telemetry.Patience(s.App.Getenv)
	late := time.After(patience + exportSlack)
	var why string
	select {
	case waitErr := <-waited:
		if waitErr == nil && marshalErr == nil {
			return
		}
		if why = shorten(strings.TrimSpace(s.stderr.String())); why == "" {
			why = errors.Join(waitErr, marshalErr).Error()
		}
	case <-late:
		why = fmt.Sprintf("nothing was sent in %v, which OTEL_EXPORTER_OTLP_TIMEOUT changes", patience)
	case sig := <-s.interrupted():
		why = fmt.Sprintf("%v: it may not have been sent", sig)
	}
	s.Process.Process.Kill()
	s.App.Say("telemetry: " + strings.ReplaceAll(why, "\n", "; "))
}

// maxWhy is how many bytes of an error to show: it contains a receiver's answer, which may be a
// whole page of HTML.
const maxWhy = 2000

func shorten(text string) string {
	if len(text) <= maxWhy {
		return text
	}
	return strings.ToValidUTF8(text[:maxWhy], "") + "..."
}
