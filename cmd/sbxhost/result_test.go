package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/execute"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/audit"
	"github.com/sbxhost/sbxhost/shared"
)

// schemaNode is the part of JSON Schema that docs/result.schema.json is written in.
type schemaNode struct {
	Ref        string                `json:"$ref"`
	Type       any                   `json:"type"`
	Const      any                   `json:"const"`
	Enum       []any                 `json:"enum"`
	AnyOf      []schemaNode          `json:"anyOf"`
	OneOf      []schemaNode          `json:"oneOf"`
	Items      *schemaNode           `json:"items"`
	Properties map[string]schemaNode `json:"properties"`
	Required   []string              `json:"required"`
	Defs       map[string]schemaNode `json:"$defs"`
}

func resultSchema(t *testing.T) schemaNode {
	t.Helper()
	text, err := os.ReadFile("../../docs/result.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var s schemaNode
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// fieldsOf are those that a struct has as JSON, embedded ones included.
func fieldsOf(of reflect.Type) (fields []reflect.StructField) {
	for _, f := range reflect.VisibleFields(of) {
		if name := jsonName(f); !f.Anonymous && name != "-" && name != "" {
			fields = append(fields, f)
		}
	}
	return fields
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// describes compares a type with its schema: each field is described by its type, and nothing else is.
func (s schemaNode) describes(t *testing.T, at string, of reflect.Type, node schemaNode) {
	if name, ok := strings.CutPrefix(node.Ref, "#/$defs/"); ok {
		node = s.Defs[name]
	}
	nullable := of.Kind() == reflect.Pointer
	if nullable {
		of = of.Elem()
	}
	if len(node.AnyOf) == 2 && nullable && node.AnyOf[1].Type == "null" {
		s.describes(t, at, of, node.AnyOf[0])
		return
	}
	var want any
	switch of.Kind() {
	case reflect.Bool:
		want = "boolean"
	case reflect.String:
		want = "string"
		if len(node.Enum) > 0 {
			want = nil
		}
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Uint16:
		want = "integer"
		if node.Const != nil {
			want = nil
		}
	case reflect.Slice:
		want = "array"
		if node.Items == nil {
			t.Errorf("%s: no items", at)
			return
		}
		s.describes(t, at+"[]", of.Elem(), *node.Items)
	case reflect.Struct:
		want = "object"
		s.describesFields(t, at, of, node)
	default:
		t.Errorf("%s: a %s", at, of.Kind())
	}
	if nullable {
		want = []any{want, "null"}
	}
	if !reflect.DeepEqual(node.Type, want) {
		t.Errorf("%s: the schema says %v, the type %v", at, node.Type, want)
	}
}

func (s schemaNode) describesFields(t *testing.T, at string, of reflect.Type, node schemaNode) {
	var names []string
	for _, f := range fieldsOf(of) {
		name := jsonName(f)
		names = append(names, name)
		described, ok := node.Properties[name]
		if !ok {
			t.Errorf("%s.%s is not in the schema", at, name)
			continue
		}
		s.describes(t, at+"."+name, f.Type, described)
		if optional := strings.Contains(f.Tag.Get("json"), "omitempty"); optional == slices.Contains(node.Required, name) {
			t.Errorf("%s.%s: may be missing: %v, required in the schema: %v", at, name, optional, !optional)
		}
	}
	for name := range node.Properties {
		if !slices.Contains(names, name) {
			t.Errorf("%s.%s is in the schema alone", at, name)
		}
	}
}

// What is written for other programs is what docs/result.schema.json says.
func TestResultSchema(t *testing.T) {
	t.Parallel()
	s := resultSchema(t)
	s.describes(t, "result", reflect.TypeFor[execute.Result](), s)
	if len(s.Defs["result"].Properties) < 25 {
		t.Error("the schema has hardly any properties")
	}
	told := map[string]reflect.Type{"decided": reflect.TypeFor[execute.DecidedEvent](), "started": nil, "limit": reflect.TypeFor[host.LimitReport](), "denial": reflect.TypeFor[host.Denial](),
		"network": reflect.TypeFor[audit.NetworkUse](), "ended": reflect.TypeFor[execute.Result]()}
	for _, kind := range []string{"degraded", "progress", "discarded", "dropped"} {
		told[kind] = reflect.TypeFor[execute.Message]()
	}
	for _, node := range s.Defs["event"].OneOf {
		kind, _ := node.Properties["event"].Const.(string)
		of, ok := told[kind]
		delete(told, kind)
		delete(node.Properties, "event")
		switch {
		case !ok:
			t.Errorf("%q is no event", kind)
		case of != nil:
			s.describes(t, kind, of, node)
		}
	}
	for kind := range told {
		t.Errorf("event %q is not in the schema", kind)
	}
}

// Go writes null for a list that is nil. The schema has none.
func checkResultLists(t *testing.T, text []byte) {
	t.Helper()
	var values map[string]any
	if err := json.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	for _, f := range fieldsOf(reflect.TypeFor[execute.Result]()) {
		value, ok := values[jsonName(f)]
		if _, list := value.([]any); !ok || f.Type.Kind() == reflect.Slice && !list {
			t.Errorf("%s is %v", jsonName(f), value)
		}
	}
}

type eventLine struct {
	Event string
	Time  time.Time
	execute.Result
}

func readEvents(t *testing.T, text string) (lines []eventLine) {
	t.Helper()
	for line := range strings.Lines(text) {
		var e eventLine
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Event == "" || e.Time.IsZero() {
			t.Fatalf("%q: %v", line, err)
		}
		lines = append(lines, e)
	}
	return lines
}

func TestEventsToADescriptor(t *testing.T) {
	t.Parallel()
	engine := &fakeEngine{result: ended(3), events: []shared.Event{
		{Kind: shared.EventLimit, Message: "m", Details: map[string]string{"limit": "pids", "mechanism": "cgroup v2", "hold": "enforced"}},
		{Kind: shared.EventNetwork, Details: map[string]string{"name": "x.example", "allowed": "false", "reason": "it is not listed"}},
		{Kind: shared.EventTraced, Details: map[string]string{"calls": "[]"}},
		{Kind: shared.EventViolation, Message: "no", Details: map[string]string{"operation": "read", "path": "/y"}},
	}}
	a, _, errs, path := testApp(t, engine, fastConfig)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(w.Fd())) // which is its own from now on
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if status := runLine(a, []string{"exec", "-config", path, "-quiet", "-events", "/dev/fd/" + strconv.Itoa(fd), "x"}); status != 3 || errs.Len() > 0 {
		t.Errorf("status %d, %s", status, errs)
	}
	text, err := io.ReadAll(r) // to the end: the descriptor was closed
	if err != nil {
		t.Fatal(err)
	}
	byKind := map[string]string{}
	for line := range strings.Lines(string(text)) {
		byKind[readEvents(t, line)[0].Event] = line
	}
	for kind, want := range map[string]string{"decided": `"rule":"engine-isolates"`, "started": `"event":"started"`, "limit": `"hold":"enforced"`, "network": `"name":"x.example","allowed":false`,
		"denial": `"path":"/y"`, "ended": `"exit_code":3`} {
		if !strings.Contains(byKind[kind], want) {
			t.Errorf("%s: %q has no %s", kind, byKind[kind], want)
		}
		delete(byKind, kind)
	}
	if len(byKind) > 0 {
		t.Errorf("and %q", byKind)
	}
}

// A reader that wants no more is no reason to fail, a full disk is.
func TestEventsThatAreNotWritten(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func() (*os.File, error){
		"gone": func() (*os.File, error) {
			r, w, err := os.Pipe()
			if err == nil {
				r.Close()
			}
			return w, err
		},
		"full": func() (*os.File, error) { return os.OpenFile("/dev/full", os.O_WRONLY, 0) },
	} {
		f, err := open()
		if name == "full" && errors.Is(err, os.ErrNotExist) {
			continue // not Linux
		}
		if err != nil {
			t.Fatal(err)
		}
		fd, err := syscall.Dup(int(f.Fd()))
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		a, _, errs, path := testApp(t, &fakeEngine{result: ended(3)}, fastConfig)
		status := runLine(a, []string{"exec", "-config", path, "-events", "/dev/fd/" + strconv.Itoa(fd), "x"})
		if want := map[string]int{"gone": 3, "full": cli.StatusFailed}[name]; status != want || (name == "full") != strings.Contains(errs.String(), "-events: ") {
			t.Errorf("%s: status %d, %s", name, status, errs)
		}
	}
}
