package shared_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/sbxhost/sbxhost/shared"
)

// fill sets every field that v has, however deep, to a value that is neither
// zero nor that of another field. A field of a type that it does not know
// fails the test, so that nothing new is forgotten.
func fill(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(int64(*n), int64(*n))))
		return
	case reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(fmt.Sprint(*n)))
		return
	case reflect.TypeFor[Filesystem](), reflect.TypeFor[NetworkMode]():
		v.SetInt(1)
		return
	case reflect.TypeFor[Access]():
		v.SetInt(int64(1 + *n%4))
		return
	case reflect.TypeFor[Missing]():
		v.SetInt(int64(1 + *n%2))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("s", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n) / 4)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(t, v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(t, key, n)
			fill(t, value, n)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), n)
		}
	default:
		t.Fatalf("%v: teach fill this kind", v.Type())
	}
}

// mirror keeps what it is given and answers what it is told.
type mirror struct {
	spec    Spec
	command Command

	info   Info
	probe  Probe
	plan   Plan
	event  Event
	result Result
	err    error // of Probe
}

func (m *mirror) Info(context.Context) (Info, error)   { return m.info, nil }
func (m *mirror) Probe(context.Context) (Probe, error) { return m.probe, m.err }

func (m *mirror) Open(_ context.Context, spec Spec) (Sandbox, error) {
	m.spec = spec
	return mirrorSandbox{m}, nil
}

type mirrorSandbox struct{ *mirror }

func (m mirrorSandbox) Plan(_ context.Context, cmd Command) (Plan, error) {
	m.command = cmd
	return m.plan, nil
}

func (m mirrorSandbox) Start(_ context.Context, cmd Command, _ Stdio) (Process, error) {
	m.command = cmd
	return &mirrorProcess{m.mirror, make(chan struct{})}, nil
}

func (mirrorSandbox) Close(context.Context) error { return nil }

type mirrorProcess struct {
	*mirror
	ended chan struct{}
}

func (m *mirrorProcess) Wait(context.Context) (Result, error) {
	<-m.ended
	return m.result, nil
}

func (m *mirrorProcess) Signal(context.Context, syscall.Signal) error {
	close(m.ended)
	return nil
}

func (m *mirrorProcess) Events() <-chan Event {
	events := make(chan Event, 1)
	events <- m.event
	close(events)
	return events
}

// across has everything that can be sent cross the wire, in both directions, and gives what has
// arrived.
func across(t *testing.T, given *mirror) *mirror {
	t.Helper()
	engineSide, hostSide := *given, &mirror{}
	e := connect(t, &engineSide).engine
	var err error
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	hostSide.info, err = e.Info(t.Context())
	must(err)
	hostSide.probe, err = e.Probe(t.Context())
	must(err)
	s, err := e.Open(t.Context(), given.spec)
	must(err)
	hostSide.plan, err = s.Plan(t.Context(), given.command)
	must(err)
	p, err := s.Start(t.Context(), given.command, Stdio{})
	must(err)
	hostSide.event = <-p.Events()
	must(p.Signal(t.Context(), 9))
	hostSide.result, err = p.Wait(t.Context())
	must(err)
	must(s.Close(t.Context()))
	hostSide.spec, hostSide.command = engineSide.spec, engineSide.command
	return hostSide
}

func TestEverythingCrosses(t *testing.T) {
	zero, full := &mirror{}, &mirror{}
	zero.event.Time = time.Unix(1, 0) // one without a time gets one
	n := 0
	for _, v := range []any{&full.spec, &full.command, &full.info, &full.probe, &full.plan, &full.event} {
		fill(t, reflect.ValueOf(v).Elem(), &n)
	}
	n = 0 // no process ends with a larger signal
	fill(t, reflect.ValueOf(&full.result).Elem(), &n)
	for name, given := range map[string]*mirror{"zero": zero, "full": full} {
		if got := across(t, given); !reflect.DeepEqual(got, given) {
			t.Errorf("%s:\n%+v\nbecame\n%+v", name, given, got)
		}
	}
}

// Paths, arguments and environment are bytes; what is text must not keep a
// message from being sent.
// An engine ignores a field that it does not know. So what a Spec asks for is a feature, which such an engine does
// not claim, or a reason says why it can be ignored.
func TestEachFieldOfASpecIsAFeature(t *testing.T) {
	t.Parallel()
	harmless := map[string]string{
		"Sandbox": "a name, for messages", "Prepare": "makes a command faster, and changes nothing", "Options": "the engine's own",
		"Network.Names": "are read in one mode alone, which is a feature", "Network.Inject.Certificate": "is for the credentials, which are a feature",
		"Session.ID": "a name", "Session.Dir": "the table shows what is in it",
		"Limits.BestEffort": "asks for nothing",
	}
	none := (&Spec{}).Without(nil)
	n := 0
	var look func(path string, at func(*Spec) reflect.Value)
	look = func(path string, at func(*Spec) reflect.Value) {
		if v := at(&Spec{}); v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				look(strings.TrimPrefix(path+"."+v.Type().Field(i).Name, "."), func(s *Spec) reflect.Value { return at(s).Field(i) })
			}
			return
		}
		spec := &Spec{}
		fill(t, at(spec), &n)
		reason := harmless[path]
		delete(harmless, path)
		if asks := !reflect.DeepEqual(spec.Without(nil), none); asks == (reason != "") {
			t.Errorf("%s asks for a feature: %v; it does not have to: %q", path, asks, reason)
		}
	}
	look("", func(s *Spec) reflect.Value { return reflect.ValueOf(s).Elem() })
	for path := range harmless {
		t.Errorf("there is no field %s", path)
	}
}

func TestInvalidUTF8(t *testing.T) {
	const bad, mended = "a\xffb", "a\uFFFDb"
	got := across(t, &mirror{
		spec:    Spec{Sandbox: bad, Home: bad, Table: []Entry{{Source: bad, Path: bad, Why: bad, Access: ReadOnly}}},
		command: Command{Args: []string{bad}, Script: bad, Env: []string{bad}, Dir: bad},
		event:   Event{Kind: bad, Message: bad, Details: map[string]string{bad: bad}},
		probe:   Probe{Reason: bad, Fix: bad, Degraded: []string{bad}, Facts: map[string]string{bad: bad}},
		info:    Info{Name: bad, Features: Features{bad}, Options: OptionSchema{Attributes: []OptionAttribute{{Name: bad, Type: bad}}}},
		plan:    Plan{Argv: []string{bad}, Mounts: []PlannedMount{{Op: bad, Why: bad}}, Documents: []PlanDocument{{Name: bad, Text: bad}}, Notes: []string{bad}},
	})
	if want := (Spec{Sandbox: mended, Home: bad, Table: []Entry{{Source: bad, Path: bad, Why: mended, Access: ReadOnly}}}); !reflect.DeepEqual(got.spec, want) {
		t.Errorf("%+v", got.spec)
	}
	if want := (Command{Args: []string{bad}, Script: bad, Env: []string{bad}, Dir: bad}); !reflect.DeepEqual(got.command, want) {
		t.Errorf("%+v", got.command)
	}
	if got.probe.Reason != mended || got.plan.Argv[0] != bad || got.plan.Notes[0] != mended || got.event.Details[mended] != mended || got.info.Name != mended {
		t.Errorf("%+v", got)
	}
}
