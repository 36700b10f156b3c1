package holder

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/internal/frame"
)

func TestWire(t *testing.T) {
	t.Parallel()
	ops := []Op{{}, {Kind: Bind, Source: "/a\nb", Dest: "/0/\xff", Perms: 0o755, Size: 1 << 40}, {Kind: HideDirectory, Dest: strings.Repeat("x", 70000)}}
	got, err := NewPlan(ops).ops()
	if err != nil || !slices.Equal(got, ops) {
		t.Errorf("%v, %v", got, err)
	}
	for _, want := range messages(ops) {
		back := reflect.New(reflect.TypeOf(want).Elem()).Interface().(frame.Message)
		if err := frame.Decode(frame.Payload(want), back); err != nil || !reflect.DeepEqual(back, want) {
			t.Errorf("%+v came back as %+v, %v", want, back, err)
		}
	}
	for _, wrong := range []frame.Message{
		&run{}, &run{argv: []string{"x"}, namespaces: 1}, &run{argv: []string{"x"}, files: frame.MaxFiles},
		&run{argv: make([]string, maxWords+1)}, &overlayRequest{source: "s"}, &overlayRequest{}, &ownRequest{scratch: "/s", sources: []string{"a"}}, &ownRequest{sources: []string{"/a"}}, &steps{{Kind: kinds}}, &Sandbox{Namespaces: 1},
	} {
		back := reflect.New(reflect.TypeOf(wrong).Elem()).Interface().(frame.Message)
		if err := frame.Decode(frame.Payload(wrong), back); !errors.Is(err, frame.ErrMalformed) {
			t.Errorf("%+v was taken: %v", wrong, err)
		}
	}
}

// messages are one of each kind.
func messages(ops []Op) []frame.Message {
	return []frame.Message{
		&run{plan: NewPlan(ops), argv: []string{"init", "", "--"}, namespaces: 1 << 29, files: 3, grouped: true, first: true, overlays: []string{"/s"}},
		&run{argv: []string{"init"}, ahead: true},
		&MountError{Index: -1, Call: "call", Reason: "reason", Errno: syscall.EPERM, Shared: true},
		&overlayRequest{"/s", true},
		&ownRequest{"/scratch", "1:2", []string{"/a", "/b"}},
		&ownAnswer{[]MountError{{Index: 1, Call: "call", Reason: "reason"}}},
		&number{0x8b},
		&restoredMount{"/0/ws/.git/config", "reason"},
		&Sandbox{Starter: []string{"mnt:[1]", "user:[2]"}, Namespaces: 1 << 29, Steps: NewPlan(ops)},
	}
}

func FuzzDecode(f *testing.F) {
	ops := []Op{{Kind: Root, Dest: "/0"}, {Kind: File, Source: "/etc/passwd", Dest: "/0/etc/passwd", Perms: 0o444}}
	f.Add([]byte(NewPlan(ops)))
	for _, m := range messages(ops) {
		f.Add(frame.Payload(m))
	}
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range []frame.Message{&steps{}, &run{}, &MountError{}, &overlayRequest{}, &ownRequest{}, &ownAnswer{}, &number{}, &restoredMount{}, &Sandbox{}} {
			if err := frame.Decode(b, m); err == nil && string(frame.Payload(m)) != string(b) {
				t.Errorf("%+v is not %q", m, b)
			}
		}
	})
}

func TestWanted(t *testing.T) {
	t.Parallel()
	for _, words := range [][]string{append(argv(ofSession), "mnt:[1]", "user:[1]"), append(argv(alone), "mnt:[1]", "user:[1]")} {
		if !Requested(words) {
			t.Errorf("%q is not wanted", words)
		}
	}
	for _, words := range [][]string{nil, {"x"}, {"x", Arg}, {"x", Arg, "3", "m", "u"}, {"x", "sbxhost-init", alone, "m", "u"}, {"x", Arg, alone, "m"}} {
		if Requested(words) {
			t.Errorf("%q is wanted", words)
		}
	}
	if wait := syscall.WaitStatus(9); !wait.Signaled() || wait.Signal() != syscall.SIGKILL {
		t.Error("a wait status travels as the kernel's own number")
	}
}
