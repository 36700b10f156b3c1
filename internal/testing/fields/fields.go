// Package fields fills values for tests that must not forget a field, also one that somebody adds.
package fields

import (
	"fmt"
	"reflect"
	"testing"
	"unsafe"
)

// Each calls f for every field of a T, however deep, with two values: in both all fields are set, and that
// one alone differs. The path names it as Go does, with [] for what is in a list or in a map. Of an
// interface and of a function, others has two values of its type, for all there are.
func Each[T any](t *testing.T, others map[reflect.Type][2]any, f func(path string, plain, changed *T)) {
	t.Helper()
	for i := 0; ; i++ {
		plain, changed := new(T), new(T)
		(&filler{t: t, others: others, change: -1}).fill(reflect.ValueOf(plain).Elem(), "")
		fill := &filler{t: t, others: others, change: i}
		fill.fill(reflect.ValueOf(changed).Elem(), "")
		if fill.changed == "" {
			return
		}
		f(fill.changed[1:], plain, changed)
	}
}

type filler struct {
	t       *testing.T
	others  map[reflect.Type][2]any
	n       int // fields that were set
	change  int // the one that is changed
	changed string
}

// next counts one field more, and reports whether it is the one.
func (f *filler) next(path string) bool {
	one := f.n == f.change
	if one {
		f.changed = path
	}
	f.n++
	return one
}

func (f *filler) fill(v reflect.Value, path string) {
	if two, ok := f.others[v.Type()]; ok {
		value := two[0]
		if f.next(path) {
			value = two[1]
		}
		v.Set(reflect.ValueOf(value))
		return
	}
	// A number that no other field has, and another one.
	number := 2 * (f.n + 1)
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Field(i)
			field = reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem() // one that has no capital, too
			f.fill(field, path+"."+v.Type().Field(i).Name)
		}
		return
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), path)
		return
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 2))
		f.fill(v.Index(0), path+"[]")
		if f.next(path) {
			v.SetLen(2)
		}
		return
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key, path+"[key]")
		f.fill(value, path+"[]")
		v.SetMapIndex(key, value)
		return
	}
	if f.next(path) {
		number++
	}
	switch {
	case v.Kind() == reflect.String:
		v.SetString(fmt.Sprint("text ", number))
	case v.Kind() == reflect.Bool:
		v.SetBool(number%2 == 0)
	case v.CanInt():
		v.SetInt(int64(number % 128))
	case v.CanUint():
		v.SetUint(uint64(number % 256))
	case v.CanFloat():
		v.SetFloat(float64(number))
	default:
		f.t.Fatalf("%s: no value of %v is known", path, v.Type())
	}
}
