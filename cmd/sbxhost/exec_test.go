package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/execute"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/terminal"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
)

func TestExecStatus(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		engine  *fakeEngine
		args    []string
		status  int
		outcome string
		stderr  string

		denials []host.Denial
	}{
		{name: "success", args: []string{"true"}, outcome: "exited"},
		{name: "code", engine: &fakeEngine{result: ended(7)}, args: []string{"false"}, status: 7, outcome: "exited"},
		{name: "code that looks like a signal", engine: &fakeEngine{result: ended(143)}, args: []string{"x"}, status: 143, outcome: "exited"},
		{name: "signal", engine: &fakeEngine{result: shared.Result{Status: shared.ExitStatus{Signal: syscall.SIGTERM}}},
			args: []string{"x"}, status: 143, outcome: "signaled"},
		{name: "time out", engine: &fakeEngine{result: shared.Result{Status: shared.ExitStatus{Signal: syscall.SIGTERM}, TimedOut: true}},
			args: []string{"-timeout", "2s", "x"}, status: 124, outcome: "timed_out", stderr: "sbxhost: the command was ended after 2s, its time limit (-timeout)\n"},
		{name: "not found", engine: &fakeEngine{startErr: &shared.Error{Kind: shared.ErrNotFound, Message: "x: not found"}},
			args: []string{"x"}, status: 127, outcome: "failed", stderr: `sbxhost: sandbox "fast": x: not found`},
		{name: "not executable", engine: &fakeEngine{startErr: &shared.Error{Kind: shared.ErrNotExecutable, Message: "x: not executable", Hint: "chmod +x"}},
			args: []string{"x"}, status: 126, outcome: "failed", stderr: "x: not executable\n  hint: chmod +x\n"},
		{name: "broken", engine: &fakeEngine{waitErr: shared.ErrBroken}, args: []string{"x"}, status: 125, outcome: "failed", stderr: "sandbox broke"},
		{name: "engine refuses an attribute", engine: &fakeEngine{openErr: &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "engine", Message: "no"}},
			args: []string{"x"}, status: 125, outcome: "failed", stderr: "sandbox.hcl line 2, in sandbox \"fast\""},
		{name: "engine cannot hold a flag", engine: &fakeEngine{features: fewFeatures},
			args: []string{"-network=true", "x"}, status: 125, outcome: "failed", stderr: "-network: engine \"bwrap\" cannot enforce network = true"},
		{name: "engine has no terminal", engine: &fakeEngine{features: fewFeatures},
			args: []string{"-t", "x"}, status: 125, outcome: "failed", stderr: "-t: engine"},
		{name: "bad variable", args: []string{"-env", "=x", "x"}, status: 125, outcome: "failed", stderr: "-env: \"\" is not a variable name"},
		{name: "outside of the workspace", args: []string{"-C", "/usr", "x"}, status: 125, outcome: "failed", stderr: "-C: "},
		{name: "unknown sandbox", args: []string{"-sandbox", "fsat", "x"}, status: 125, outcome: "failed", stderr: "sandbox.hcl\n"},
		{name: "session", args: []string{"-session", "../s", "x"}, status: 125, outcome: "failed", stderr: "hint: it comes from -session or the variable SBXHOST_SESSION"},
		{name: "bypass", args: []string{"-no-sandbox", "x"}, status: 125, outcome: "failed", stderr: "sbxhost: the configuration does not allow a run without a sandbox"},
		{name: "degraded", engine: &fakeEngine{events: []shared.Event{{Kind: shared.EventDegraded, Message: "less\x1b of it"}}},
			args: []string{"x"}, outcome: "exited", stderr: "sbxhost: degraded: less\uFFFD of it\n"},
		{name: "denial", engine: &fakeEngine{events: []shared.Event{{Kind: shared.EventViolation, Message: "cat was denied x",
			Details: map[string]string{"operation": "x", "path": "/y", "attribute": "bind_paths"}}}},
			args: []string{"x"}, outcome: "exited", stderr: "sbxhost: hint: cat was denied x; see bind_paths at ", denials: []host.Denial{{Path: "/y", Operation: "x", Attribute: "bind_paths", Reason: "cat was denied x"}}},
		{name: "quiet", engine: &fakeEngine{events: []shared.Event{{Kind: shared.EventDegraded, Message: "less of it"}}},
			args: []string{"-quiet", "x"}, outcome: "exited"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			engine := tt.engine
			if engine == nil {
				engine = &fakeEngine{}
			}
			a, out, errs, path := testApp(t, engine, fastConfig)
			file := filepath.Join(t.TempDir(), "result.json")
			happened := filepath.Join(t.TempDir(), "events.jsonl")
			status := runLine(a, append([]string{"exec", "-config", path, "-result", file, "-events", happened}, tt.args...))
			if status != tt.status {
				t.Errorf("status %d, want %d; stderr:\n%s", status, tt.status, errs)
			}
			if out.Len() > 0 {
				t.Errorf("standard output is the command's, and has %q", out)
			}
			if !strings.Contains(errs.String(), tt.stderr) || tt.stderr == "" && errs.Len() > 0 {
				t.Errorf("standard error is %q, want %q in it", errs, tt.stderr)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var res execute.Result
			if err := json.Unmarshal(text, &res); err != nil {
				t.Fatal(err)
			}
			if res.Outcome != tt.outcome || res.Status != tt.status || (res.Error != "") != (tt.outcome == "failed") {
				t.Errorf("result %s", text)
			}
			checkResultLists(t, text)
			if refused := tt.outcome == "failed" && tt.status == cli.StatusFailed && tt.name != "broken"; refused && (res.ExitCode != nil || res.Decision == "sandboxed") {
				t.Errorf("of what did not run: %s", text)
			}
			line, err := os.ReadFile(happened)
			if err != nil {
				t.Fatal(err)
			}
			events := readEvents(t, string(line))
			if last := events[len(events)-1]; last.Event != "ended" || !reflect.DeepEqual(last.Result, res) {
				t.Errorf("it ends with %+v, and the result is %s", last, text)
			}
			if begun := events[0].Event == "decided"; begun != (res.Decision == "sandboxed") || begun && (events[0].Sandbox != "fast" || events[0].Rule == "") {
				t.Errorf("it begins with %+v, and the result is %s", events[0], text)
			}
			for i := range res.Denials {
				if res.Denials[i].At == "" {
					t.Errorf("a denial without its place: %+v", res.Denials[i])
				}
				res.Denials[i].At = ""
			}
			if tt.name != "time out" && !slices.Equal(res.Denials, tt.denials) {
				t.Errorf("denials %+v", res.Denials)
			}
			if entries, _ := os.ReadDir(filepath.Dir(file)); len(entries) != 1 {
				t.Errorf("left behind beside the result: %v", entries)
			}
		})
	}
}

// A signal while the engine starts the command: nobody is told that nothing has run, unless that is known.
func TestExecSignalDuringStart(t *testing.T) { // not parallel: the signal is for all of this process
	for name, tt := range map[string]struct {
		hangs   bool
		outcome string
		stderr  string
	}{
		"the engine hangs":  {true, "failed", "sbxhost: ended by SIGTERM while the command was started; it may have run\n"},
		"the command began": {false, "signaled", ""},
	} {
		engine := &fakeEngine{result: shared.Result{Status: shared.ExitStatus{Signal: syscall.SIGKILL}}, runs: make(chan struct{})}
		engine.starting = func(ctx context.Context) error {
			syscall.Kill(os.Getpid(), syscall.SIGTERM)
			if tt.hangs {
				<-ctx.Done()
				return ctx.Err()
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(terminal.StartPatience + 50*time.Millisecond):
				return nil
			}
		}
		a, _, errs, path := testApp(t, engine, fastConfig)
		file := filepath.Join(t.TempDir(), "result.json")
		if status := runLine(a, []string{"exec", "-config", path, "-result", file, "x"}); status != 143 || errs.String() != tt.stderr {
			t.Errorf("%s: status %d, %q", name, status, errs)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var res execute.Result
		if err := json.Unmarshal(text, &res); err != nil || res.Outcome != tt.outcome || res.Status != 143 || tt.hangs != strings.Contains(res.Error, "may have run") {
			t.Errorf("%s: %v: %s", name, err, text)
		}
	}
}

// A signal that comes too late ends sbxhost, unless the command got one before: how it ended is then its answer.
func TestExecLateSignal(t *testing.T) { // not parallel: the signal is for all of this process
	for got, want := range []int{143, 0} {
		engine := &fakeEngine{runs: make(chan struct{}), signal: func(p *fakeProcess) error {
			if len(p.signals) <= got {
				return syscall.Kill(os.Getpid(), syscall.SIGTERM)
			}
			p.once.Do(func() { close(p.ended) })
			return os.ErrProcessDone
		}}
		go func() {
			<-engine.runs
			syscall.Kill(os.Getpid(), syscall.SIGTERM)
		}()
		a, _, errs, path := testApp(t, engine, fastConfig)
		if status := runLine(a, []string{"exec", "-config", path, "x"}); status != want || errs.Len() > 0 {
			t.Errorf("after %d others: status %d, %q", got, status, errs)
		}
	}
}

func TestExecRefusesBeforeItRuns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		args   []string
		stderr string
	}{
		{"no command", nil, "no command"},
		{"unknown flag", []string{"-bogus", "x"}, "there is no flag -bogus"},
		{"network without a value", []string{"-network", "curl"}, "write -network=true, -network=false or names"},
		{"no time", []string{"-timeout", "0", "x"}, "above zero"},
		{"time without unit", []string{"-timeout", "5", "x"}, "with its unit"},
		{"result nowhere", []string{"-result", "/dev/null/r.json", "x"}, "-result: "},
		{"result is a device", []string{"-result", "/dev/null", "x"}, "-result: /dev/null is not a regular file"},
		{"events to the command's own", []string{"-events", "/dev/fd/1", "x"}, "-events: /dev/fd/1 is a standard stream"},
		{"events to nobody", []string{"-events", "/dev/fd/987654", "x"}, "-events: descriptor 987654 is not open for writing"},
		{"events to a device", []string{"-events", "/dev/null", "x"}, "-events: /dev/null is not a regular file"},
		{"result is a directory", []string{"-result", "there/", "x"}, "-result: there/ names a directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			engine := &fakeEngine{}
			a, _, errs, path := testApp(t, engine, fastConfig)
			if status := runLine(a, append([]string{"exec", "-config", path}, tt.args...)); status != cli.StatusFailed {
				t.Errorf("status %d", status)
			}
			if !strings.Contains(errs.String(), tt.stderr) {
				t.Errorf("standard error is %q, want %q in it", errs, tt.stderr)
			}
			if len(engine.specs) > 0 {
				t.Error("a sandbox was opened")
			}
		})
	}
}

func TestExecOverrides(t *testing.T) {
	t.Parallel()
	engine := &fakeEngine{}
	a, _, errs, path := testApp(t, engine, `sandbox "fast" {
  engine  = "bwrap"
  network = true
  env     = { A = "file" }
  limits { timeout = "1s" }
  config { path = "/opt/bwrap" }
}
`)
	a.Environ = append(a.Environ, "MINE=mine")
	args := []string{"exec", "--config", path, "--network", "false", "-read-only", "-timeout", "1h", "-env", "A=flag", "-env", "MINE", "-env", "NONE",
		"-c", "echo $1", "--", "-h", "two"}
	if status := runLine(a, args); status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	spec, cmd := engine.specs[0], engine.command
	if spec.Network.Mode != shared.NetworkNone || spec.Table[0].Access != shared.ReadOnly ||
		cmd.Timeout > time.Hour || cmd.Timeout < 30*time.Minute { // what is left of it
		t.Errorf("network %v, workspace %v, timeout %v", spec.Network.Mode, spec.Table[0].Access, cmd.Timeout)
	}
	if string(spec.Options) != `{"path":"/opt/bwrap"}` {
		t.Errorf("options %s", spec.Options)
	}
	if cmd.Script != "echo $1" || !slices.Equal(cmd.Args, []string{"-h", "two"}) {
		t.Errorf("script %q with %q", cmd.Script, cmd.Args)
	}
	for _, want := range []string{"A=flag", "MINE=mine"} {
		if !slices.Contains(cmd.Env, want) {
			t.Errorf("environment %q has no %s", cmd.Env, want)
		}
	}
	if slices.ContainsFunc(cmd.Env, func(s string) bool { return strings.HasPrefix(s, "NONE") }) {
		t.Errorf("environment %q", cmd.Env)
	}
	if slices.ContainsFunc(spec.Table, func(m shared.Entry) bool { return m.Source == path && m.Access == shared.ReadWrite }) {
		t.Error("the configuration can be written")
	}
}

// What follows exec's own flags is the command's, -h too.
func TestExecLeavesTheCommandAlone(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"ls", "-h"}, {"ls", "--help"}, {"ls", "-autocomplete-install"}, {"--", "ls", "--", "-help"}} {
		engine := &fakeEngine{}
		a, out, errs, path := testApp(t, engine, fastConfig)
		if status := runLine(a, slices.Concat([]string{"exec", "-config", path}, args)); status != 0 || out.Len() > 0 {
			t.Errorf("%q: status %d, output %q, %s", args, status, out, errs)
		}
		want := args
		if args[0] == "--" {
			want = args[1:]
		}
		if !slices.Equal(engine.command.Args, want) {
			t.Errorf("%q ran %q", args, engine.command.Args)
		}
	}
}

func TestEmptyScript(t *testing.T) {
	t.Parallel()
	engine := &fakeEngine{}
	a, _, errs, path := testApp(t, engine, fastConfig)
	if status := runLine(a, []string{"exec", "-config", path, "-c", ""}); status != 0 {
		t.Errorf("status %d: %s", status, errs)
	}
}

func TestVariablesAreChecked(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{"SBXHOST_START_TIMEOUT=soon", "SBXHOST_START_TIMEOUT=-1s", "SBXHOST_LOG=loud"} {
		a, _, errs, path := testApp(t, &fakeEngine{}, fastConfig)
		a.Environ = append(a.Environ, entry)
		name, _, _ := strings.Cut(entry, "=")
		if status := runLine(a, []string{"exec", "-config", path, "true"}); status != cli.StatusFailed || !strings.Contains(errs.String(), name) {
			t.Errorf("%s: status %d: %s", entry, status, errs)
		}
	}
}

func TestForeignEngineError(t *testing.T) {
	t.Parallel()
	a, _, errs, path := testApp(t, nil, `engine "mine" {
  source = "/nonexistent/engine"
}
sandbox "s" {
  engine = "mine"
}
`)
	if status := runLine(a, []string{"exec", "-config", path, "true"}); status != cli.StatusFailed || !strings.Contains(errs.String(), `engine "mine"`) {
		t.Errorf("status %d: %s", status, errs)
	}
}

// In a line, the first ^D only hands over what there is of it.
func TestTypedEndsWithControlD(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "\x04", "hello\n": "hello\n\x04", "hello": "hello\x04\x04"} {
		got, err := io.ReadAll(&terminal.TypedInput{From: iotest.OneByteReader(strings.NewReader(in))})
		if err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

func TestExitStatusOfOtherErrors(t *testing.T) {
	t.Parallel()
	if got := cli.ExitStatus(errors.New("any")); got != cli.StatusFailed {
		t.Errorf("status %d", got)
	}
}

// fewFeatures are those of an engine that isolates and does nothing else.
var fewFeatures = shared.Features{shared.FeatureNetworkNone, shared.FeatureFilesystemMinimal, shared.FeatureNested,
	shared.FeatureHomePrivate, shared.FeatureTempPrivate, shared.FeatureProcessesHidden, shared.FeatureKernelFiltered, shared.FeatureMetadata}
