package enginepb

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// To returns the message for a value of package shared; value is a pointer. Text that is not UTF-8
// gets replacement characters: one bad byte in a file name would otherwise prevent the whole
// message, and with it the error that the message reports.
func To[M any](value any) *M {
	m := new(M)
	_ = translate(reflect.ValueOf(m).Elem(), reflect.ValueOf(value).Elem(), "") // values have no unknown numbers
	return m
}

// From returns the value of package shared for a message; a nil message is the zero value. The error
// is an *UnknownValueError.
func From[V any](message proto.Message) (v V, err error) {
	if from := reflect.ValueOf(message); !from.IsNil() {
		err = translate(reflect.ValueOf(&v).Elem(), from.Elem(), "")
	}
	return v, err
}

// UnknownValueError is the error of a number without a meaning: taken for a known one, an access could be
// writable.
type UnknownValueError struct {
	Attribute string // as in errors of engines: "table[1]"
	Value     int64
}

func (e *UnknownValueError) Error() string {
	return fmt.Sprintf("%s: unknown value %d", e.Attribute, e.Value)
}

// valueNames are the fields of values whose messages use another name, apart from case.
var valueNames = map[string]string{
	"MemoryBytes": "Memory", "TempBytes": "TempSize", "TimeoutNs": "Timeout", "GraceNs": "Grace", "DurationNs": "Duration",
	"CpuNs": "CPU", "TimeUnixNs": "Time", "MemoryTogether": "Together",
	"Code": "Status.Code", "Signal": "Status.Signal", "CoreDumped": "Status.CoreDumped",
}

// translate sets to to the meaning of from, one of which is a message or a part of one.
func translate(to, from reflect.Value, attribute string) error {
	if from.Kind() == reflect.Pointer {
		if from.IsNil() {
			return nil
		}
		from = from.Elem()
	}
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	moment := reflect.TypeFor[time.Time]()
	switch kind := to.Kind(); {
	case from.Type() == moment:
		to.SetInt(from.Interface().(time.Time).UnixNano())
	case to.Type() == moment:
		to.Set(reflect.ValueOf(time.Unix(0, from.Int())))
	case kind == reflect.Struct:
		return translateFields(to, from, attribute)
	case kind == reflect.String && from.Kind() == reflect.String:
		to.SetString(text(from.String()))
	case kind == reflect.Map:
		to.Set(reflect.MakeMap(to.Type()))
		for name, value := range from.Interface().(map[string]string) {
			to.SetMapIndex(reflect.ValueOf(text(name)), reflect.ValueOf(text(value)))
		}
	case kind == reflect.Slice && to.Type().Elem().Kind() != reflect.Uint8:
		to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			err := translate(to.Index(i), from.Index(i), attribute)
			if unknown, ok := err.(*UnknownValueError); ok {
				unknown.Attribute = fmt.Sprintf("%s[%d]", attribute, i)
				return unknown
			}
		}
	case kind == reflect.Int32 && !isKnown(from.Interface()):
		return &UnknownValueError{attribute, from.Int()}
	case kind == reflect.Uint16 && to.OverflowUint(from.Uint()):
		return &UnknownValueError{attribute, int64(from.Uint())}
	default: // also text as bytes, and back
		to.Set(from.Convert(to.Type()))
	}
	return nil
}

func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// isKnown reports whether a number is no value of an enumeration, or one that engine.proto names.
func isKnown(number any) bool {
	enum, ok := number.(protoreflect.Enum)
	return !ok || enum.Descriptor().Values().ByNumber(enum.Number()) != nil
}

// translateFields translates the fields that are not empty. An error in a part is about that part,
// or about an element of its own list.
func translateFields(to, from reflect.Value, attribute string) error {
	message, value := to, from
	toMessage := reflect.PointerTo(to.Type()).Implements(reflect.TypeFor[proto.Message]())
	if !toMessage {
		message, value = from, to
	}
	for _, f := range fieldsOf(message.Type(), value.Type()) {
		target, source := message.Field(f.inMessage), value.FieldByIndex(f.inValue)
		if !toMessage {
			target, source = source, target
		}
		isList := source.Kind() == reflect.Slice
		if source.IsZero() || (isList || source.Kind() == reflect.Map) && source.Len() == 0 {
			continue
		}
		about := attribute
		if about == "" || isList {
			about = f.name
		}
		if err := translate(target, source, about); err != nil {
			return err
		}
	}
	return nil
}

// field is a field of a message and of its value, by its name in engine.proto.
type field struct {
	name      string
	inMessage int
	inValue   []int
}

var fieldsOfTypes sync.Map // by the types of a message and its value

func fieldsOf(message, value reflect.Type) (list []field) {
	types := [2]reflect.Type{message, value}
	if found, ok := fieldsOfTypes.Load(types); ok {
		return found.([]field)
	}
	for i := range message.NumField() {
		f := message.Field(i)
		_, rest, ok := strings.Cut(f.Tag.Get("protobuf"), "name=")
		if name, _, _ := strings.Cut(rest, ","); ok { // the others are protobuf's own
			list = append(list, field{name, i, indexOf(value, cmp.Or(valueNames[f.Name], f.Name))})
		}
	}
	fieldsOfTypes.Store(types, list)
	return list
}

// indexOf finds a field by its name, or by the names on its way. It is there: a test tries each message.
func indexOf(value reflect.Type, names string) (index []int) {
	for name := range strings.SplitSeq(names, ".") {
		f, _ := value.FieldByNameFunc(func(field string) bool { return strings.EqualFold(field, name) })
		index, value = append(index, f.Index...), f.Type
	}
	return index
}
