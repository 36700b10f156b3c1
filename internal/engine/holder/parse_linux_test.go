package holder

import (
	"reflect"
	"syscall"
	"testing"
)

func TestParseIDMap(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]syscall.SysProcIDMap{
		"         0          0 4294967295\n": {{ContainerID: 0, HostID: 0, Size: 4294967295}},
		"0 100000 65536\n65536 1000 1\n":     {{ContainerID: 0, HostID: 0, Size: 65536}, {ContainerID: 65536, HostID: 65536, Size: 1}},
		"":                                   nil, "0 0\n": nil, "a 0 1\n": nil, "0 0 0\n": nil, "0 0 4294967296\n": nil,
	} {
		if got := parseIDMap(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func FuzzParseIDMap(f *testing.F) {
	f.Add("0 0 4294967295\n")
	f.Fuzz(func(_ *testing.T, text string) {
		parseIDMap(text)
	})
}
