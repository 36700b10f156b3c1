package host_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/audit"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/internal/session"
	"github.com/sbxhost/sbxhost/shared"
)

func TestAuditLines(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	s := stubs{platform: brokenStub(), noop: noopStub()}
	logged := func(o *host.Options) { o.AuditLog = path }
	h := s.host(t, host.Definition{}, func(o *host.Options) { logged(o); o.Approvals.Mode = policy.ModeAlways })
	if err := h.Command(t.Context(), "", "one").Run(); err != nil {
		t.Fatal(err)
	}
	h = s.host(t, host.Definition{}, logged)
	h.Command(t.Context(), "", "two").Run()
	h.Command(t.Context(), "nowhere", "three").Run()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		var r audit.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.Join([]string{string(r.Event), strings.Join(r.Argv, " "), r.Decision, r.Rule, r.Outcome}, "|"))
	}
	want := []string{
		"decision|one|sandboxed|engine-isolates|", // which turned out not to be
		"decision|one|unsandboxed|mode-always|", "end||||exited",
		"decision|two|sandboxed|engine-isolates|", "decision|two|denied|approval-needed|",
		"decision|three|denied|not-started|",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Options.Record gets what the log gets, with a log and without one, and can refuse a command.
func TestRecordCallback(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	for _, path := range []string{"", path} {
		var mu sync.Mutex
		var got []audit.Record
		var refusal error
		record := func(o *host.Options) {
			o.AuditLog = path
			o.Record = recording(func(r audit.Record) error {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, r)
				return refusal
			})
		}
		s := stubs{platform: &stubEngine{name: "bwrap"}}
		h := s.host(t, host.Definition{}, record)
		cmd := h.Command(t.Context(), "", "true")
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		h.Command(t.Context(), "nowhere", "true").Run()
		if len(got) != 3 || got[0].Event != audit.EventDecision || got[1].Event != audit.EventEnd || got[1].Outcome != "exited" || got[2].Decision != "denied" ||
			got[0].Command != got[1].Command || got[2].Command == got[0].Command || got[0].Version != 1 || got[0].Time.IsZero() {
			t.Errorf("got %+v", got)
		}
		refusal = errors.New("the collector is away")
		runs := len(s.platform.runs)
		cmd = h.Command(t.Context(), "", "true")
		if err := cmd.Run(); !errors.Is(err, refusal) || !errors.Is(err, shared.ErrDenied) || len(s.platform.runs) != runs {
			t.Errorf("%v, ran %q", err, s.platform.runs)
		}
		if last, report := got[len(got)-1], cmd.Report(); last.Event != audit.EventDecision || last.Decision != report.Decision || last.Rule != report.Rule || report.Decision != "denied" {
			t.Errorf("%+v, and %+v", last, report)
		}
	}
	if text, err := os.ReadFile(path); err != nil || strings.Count(string(text), "\n") != 5 {
		t.Errorf("%s, %v", text, err)
	}
}

// What a Host that has a session for each command refuses is logged, if its caller does not run it elsewhere.
func TestNoSessionIsLogged(t *testing.T) {
	t.Parallel()
	for _, caller := range []*host.Caller{nil, {}} {
		var got []audit.Record
		s := stubs{platform: &stubEngine{name: "bwrap"}}
		h := s.host(t, host.Definition{}, func(o *host.Options) {
			o.Session.Each = true
			if caller != nil {
				caller.Environ, caller.Dir = o.Environ, o.Dir
			}
			o.Record = recording(func(r audit.Record) error { got = append(got, r); return nil })
		})
		cmd := h.Command(t.Context(), "", "true")
		cmd.Caller, cmd.Review = caller, "r"
		if err := cmd.Run(); !errors.Is(err, session.ErrNoSession) {
			t.Fatal(err)
		}
		if logged := len(got) == 1 && got[0].Decision == "denied" && got[0].Rule == "not-started"; logged != (caller == nil) {
			t.Errorf("with the caller %v: %+v", caller, got)
		}
	}
}

// What the log says of a command that Start gave up is what its Report says, also if its engine goes
// on with it.
func TestAuditOfAbandoned(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"Open":  {"decision|denied|not-started|"},
		"Start": {"decision|sandboxed|engine-isolates|", "end|||timed_out"},
	} {
		for timeout, tried := 2*time.Second, false; !tried; timeout *= 2 { // a busy machine may not get as far as to the engine
			entered, release := make(chan struct{}, 1), make(chan struct{})
			hang := func() { entered <- struct{}{}; <-release }
			engine := &stubEngine{name: "bwrap"}
			if name == "Open" {
				engine.opening = hang
			} else {
				engine.starting = hang
			}
			got, records := []string{}, make(chan string, 10)
			s := stubs{platform: engine}
			h := s.host(t, host.Definition{}, func(o *host.Options) {
				o.Record = recording(func(r audit.Record) error {
					records <- strings.Join([]string{string(r.Event), r.Decision, r.Rule, r.Outcome}, "|")
					return nil
				})
			})
			cmd := h.Command(t.Context(), "", "true")
			cmd.Timeout = timeout
			if err := cmd.Start(); !errors.Is(err, host.ErrTimedOut) {
				t.Fatal(err)
			}
			select {
			case <-entered:
				tried = true
			default:
				close(release)
				continue
			}
			before := cmd.Report()
			close(release)
			for len(got) < len(want) {
				select {
				case line := <-records:
					got = append(got, line)
				case <-time.After(time.Minute):
					t.Fatalf("%s: %q", name, got)
				}
			}
			if !slices.Equal(got, want) || !strings.Contains(want[0], "|"+before.Decision+"|"+before.Rule+"|") {
				t.Errorf("%s: %q, %+v", name, got, before)
			}
			if after := cmd.Report(); !reflect.DeepEqual(before, after) {
				t.Errorf("%s: the report was %+v and is %+v", name, before, after)
			}
		}
	}
}

// What cannot be logged does not run.
func TestAuditStops(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := stubs{platform: &stubEngine{name: "bwrap"}}
	h := s.host(t, host.Definition{}, func(o *host.Options) { o.AuditLog = dir })
	err := h.Command(t.Context(), "", "true").Run()
	var e *shared.Error
	if !errors.As(err, &e) || e.Attribute != "audit.path" || len(s.platform.runs) > 0 {
		t.Errorf("%v, ran %q", err, s.platform.runs)
	}
	if _, err := host.New(t.Context(), host.Options{Workspace: host.WorkspaceOptions{Root: s.root}, AuditLog: "relative"}); err == nil {
		t.Error("a relative path")
	}
}
