package shared

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	pb "github.com/sbxhost/sbxhost/shared/enginepb"
	"google.golang.org/protobuf/proto"
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

// roundTrip sends v's message through its encoding and back.
func roundTrip[T any, M any, PM interface {
	*M
	proto.Message
}](t *testing.T, v T, to func(*T) PM, from func(PM) (T, error)) T {
	t.Helper()
	encoded, err := proto.Marshal(to(&v))
	if err != nil {
		t.Fatal(err)
	}
	decoded := PM(new(M))
	if err := proto.Unmarshal(encoded, decoded); err != nil {
		t.Fatal(err)
	}
	got, err := from(decoded)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func total[M, T any](f func(M) T) func(M) (T, error) {
	return func(m M) (T, error) { return f(m), nil }
}

func testRoundTrip[T any, M any, PM interface {
	*M
	proto.Message
}](t *testing.T, to func(*T) PM, from func(PM) (T, error)) {
	t.Run(reflect.TypeFor[T]().Name(), func(t *testing.T) {
		var zero, full T
		if got := roundTrip(t, zero, to, from); !reflect.DeepEqual(got, zero) {
			t.Errorf("zero value:\n%+v\nbecame\n%+v", zero, got)
		}
		fill(t, reflect.ValueOf(&full).Elem(), new(int))
		if got := roundTrip(t, full, to, from); !reflect.DeepEqual(got, full) {
			t.Errorf("full value:\n%+v\nbecame\n%+v", full, got)
		}
	})
}

func TestRoundTrip(t *testing.T) {
	testRoundTrip(t, specToPB, specFromPB)
	testRoundTrip(t, commandToPB, commandFromPB)
	testRoundTrip(t, infoToPB, total(infoFromPB))
	testRoundTrip(t, probeToPB, total(probeFromPB))
	testRoundTrip(t, planToPB, total(planFromPB))
	testRoundTrip(t, eventToPB, total(eventFromPB))
	testRoundTrip(t, resultToPB, total(resultFromPB))
	testRoundTrip(t, func(s *TerminalSize) *pb.ResizeRequest {
		return &pb.ResizeRequest{Rows: uint32(s.Rows), Cols: uint32(s.Cols)}
	}, sizeFromPB)
}

// Paths, arguments and environment are bytes; what is text must not keep a
// message from being sent.
func TestInvalidUTF8(t *testing.T) {
	const bad = "a\xffb"
	spec := Spec{Sandbox: bad, Home: bad, Deny: []string{bad}, Table: []Entry{{Source: bad, Path: bad, Why: bad, Access: ReadOnly}}}
	got := roundTrip(t, spec, specToPB, specFromPB)
	if got.Home != bad || got.Deny[0] != bad || got.Table[0].Source != bad || got.Table[0].Path != bad {
		t.Errorf("%+v", got)
	}
	if got.Sandbox != "a\uFFFDb" || got.Table[0].Why != "a\uFFFDb" {
		t.Errorf("%+v", got)
	}
	cmd := Command{Args: []string{bad}, Script: bad, Env: []string{bad}, Dir: bad}
	back := roundTrip(t, cmd, commandToPB, commandFromPB)
	if !reflect.DeepEqual(back, cmd) {
		t.Errorf("%+v", back)
	}
	roundTrip(t, Event{Kind: bad, Message: bad, Details: map[string]string{bad: bad}}, eventToPB, total(eventFromPB))
	roundTrip(t, Probe{Reason: bad, Fix: bad, Degraded: []string{bad}, Facts: map[string]string{bad: bad}}, probeToPB, total(probeFromPB))
	roundTrip(t, Info{Name: bad, Features: Features{bad}, Options: OptionSchema{Attributes: []OptionAttribute{{Name: bad, Type: bad}}}}, infoToPB, total(infoFromPB))
	roundTrip(t, Plan{Argv: []string{bad}, Mounts: []PlannedMount{{Op: bad, Why: bad}}, Documents: []PlanDocument{{Name: bad, Text: bad}}, Notes: []string{bad}}, planToPB, total(planFromPB))
}

func TestUnknownValues(t *testing.T) {
	for _, c := range []struct {
		attribute string
		spec      *pb.Spec
	}{
		{"spec", nil},
		{"filesystem", &pb.Spec{Filesystem: 2}},
		{"filesystem", &pb.Spec{Filesystem: -1}},
		{"network", &pb.Spec{Network: &pb.Network{Mode: 2}}},
		{"table[1]", &pb.Spec{Table: []*pb.Entry{{}, {Access: 5}}}},
		{"table[0]", &pb.Spec{Table: []*pb.Entry{{Missing: 3}}}},
		{"table[0]", &pb.Spec{Table: []*pb.Entry{{Access: -1}}}},
	} {
		_, err := specFromPB(c.spec)
		if whole, ok := errors.AsType[*Error](err); !ok || !errors.Is(err, ErrInvalidSpec) || whole.Attribute != c.attribute {
			t.Errorf("%v: %v", c.spec, err)
		}
	}
	if _, err := commandFromPB(nil); !errors.Is(err, ErrInvalidSpec) {
		t.Error(err)
	}
	for _, size := range []*pb.ResizeRequest{{Rows: math.MaxUint16 + 1}, {Cols: math.MaxUint32}} {
		if _, err := sizeFromPB(size); !errors.Is(err, ErrInvalidSpec) {
			t.Error(err)
		}
	}
}

// What a peer sends is never a reason to panic, and what was understood is
// sent again the same.
func FuzzMessages(f *testing.F) {
	var spec Spec
	var cmd Command
	fillFuzz := func(v any) { fill(&testing.T{}, reflect.ValueOf(v).Elem(), new(int)) }
	fillFuzz(&spec)
	fillFuzz(&cmd)
	for _, m := range []proto.Message{specToPB(&spec), commandToPB(&cmd), &pb.Spec{Table: []*pb.Entry{nil}}} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m struct {
			spec    pb.Spec
			command pb.Command
			info    pb.InfoReply
			probe   pb.ProbeReply
			plan    pb.PlanReply
			event   pb.Event
			result  pb.Result
			size    pb.ResizeRequest
			err     pb.Error
		}
		if proto.Unmarshal(b, &m.spec) == nil {
			if s, err := specFromPB(&m.spec); err == nil {
				again, err := specFromPB(specToPB(&s))
				if err != nil || !reflect.DeepEqual(s, again) && s.Limits.CPUs == s.Limits.CPUs {
					t.Errorf("%+v\nbecame\n%+v, %v", s, again, err)
				}
				s.Validate()
				s.Requires()
			}
		}
		if proto.Unmarshal(b, &m.command) == nil {
			if c, err := commandFromPB(&m.command); err == nil {
				if again, err := commandFromPB(commandToPB(&c)); err != nil || !reflect.DeepEqual(c, again) {
					t.Errorf("%+v\nbecame\n%+v, %v", c, again, err)
				}
				c.Validate()
			}
		}
		if proto.Unmarshal(b, &m.info) == nil {
			infoFromPB(&m.info)
		}
		if proto.Unmarshal(b, &m.probe) == nil {
			probeFromPB(&m.probe)
		}
		if proto.Unmarshal(b, &m.plan) == nil {
			planFromPB(&m.plan)
		}
		if proto.Unmarshal(b, &m.event) == nil {
			eventFromPB(&m.event)
		}
		if proto.Unmarshal(b, &m.result) == nil {
			resultFromPB(&m.result)
		}
		if proto.Unmarshal(b, &m.size) == nil {
			sizeFromPB(&m.size)
		}
		if proto.Unmarshal(b, &m.err) == nil {
			if err := errorFromPB(&m.err); err == nil || strings.Contains(err.Error(), "PANIC") {
				t.Errorf("%v became %v", &m.err, err)
			}
		}
	})
}
