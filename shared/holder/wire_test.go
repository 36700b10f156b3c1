package holder

import (
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestWire(t *testing.T) {
	t.Parallel()
	ops := []Op{{}, {Kind: Bind, Source: "/a\nb", Dest: "/0/\xff", Perms: 0o755, Size: 1 << 40}, {Kind: HideDirectory, Dest: strings.Repeat("x", 70000)}}
	got, err := decodePlan(encodePlan(ops))
	if err != nil || !slices.Equal(got, ops) {
		t.Errorf("%v, %v", got, err)
	}
	r := &run{7, 0o27, string(encodePlan(ops)), []string{"init", "", "--"}, 1 << 29}
	back, err := decodeRun(encodeRun(r, 3)[headerSize:])
	if err != nil || !reflect.DeepEqual(back, r) {
		t.Errorf("%+v, %v", back, err)
	}
	request, failed, err := decodeFailed(encodeFailed(9, &MountError{Index: -1, Call: "call", Reason: "reason"})[headerSize:])
	if err != nil || request != 9 || *failed != (MountError{Index: -1, Call: "call", Reason: "reason"}) {
		t.Errorf("%d, %+v, %v", request, failed, err)
	}
	request, source, err := decodeOverlay(encodeOverlay(3, "/s")[headerSize:])
	if err != nil || request != 3 || source != "/s" {
		t.Errorf("%d, %q, %v", request, source, err)
	}
	for _, want := range []bool{true, false} {
		request, same, steps, err := decodeMended(encodeMended(4, want, ops)[headerSize:])
		if err != nil || request != 4 || same != want || want && steps != NewPlan(ops) {
			t.Errorf("%d, %v, %v, %v", request, same, steps, err)
		}
	}
	var a, b uint32
	if err := decodeInts(encodeInts(msgExit, 0, 1, 0x8b)[headerSize:], &a, &b); err != nil || a != 1 || b != 0x8b {
		t.Errorf("%d, %d, %v", a, b, err)
	}
	if err := decodeInts(encodeInts(msgExit, 0, 1, 2, 3)[headerSize:], &a, &b); err == nil {
		t.Error("a message that is too long")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encodePlan([]Op{{Kind: Root, Dest: "/0"}, {Kind: File, Source: "/etc/passwd", Dest: "/0/etc/passwd", Perms: 0o444}}))
	f.Add(encodeRun(&run{1, 0o22, "plan", []string{"true", "x"}, 0}, 2)[headerSize:])
	f.Add(encodeFailed(2, &MountError{Index: 4, Call: "open_tree", Reason: "no", Errno: 1, Shared: true})[headerSize:])
	f.Add(encodeOverlay(2, "/lower")[headerSize:])
	f.Add(encodeMended(3, true, []Op{{Kind: HideFile, Dest: "/0/x"}})[headerSize:])
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if ops, err := decodePlan(b); err == nil && string(encodePlan(ops)) != string(b) {
			t.Errorf("%v is not %q", ops, b)
		}
		if r, err := decodeRun(b); err == nil && string(encodeRun(r, 0)[headerSize:]) != string(b) {
			t.Errorf("%v is not %q", r, b)
		}
		if n, e, err := decodeFailed(b); err == nil && string(encodeFailed(n, e)[headerSize:]) != string(b) {
			t.Errorf("%v is not %q", e, b)
		}
		if n, same, plan, err := decodeMended(b); err == nil && same {
			if steps, err := decodePlan(plan.Encoded()); err != nil || string(encodeMended(n, true, steps)[headerSize:]) != string(b) {
				t.Errorf("%v is not %q: %v", steps, b, err)
			}
		}
		if n, s, err := decodeOverlay(b); err == nil && string(encodeOverlay(n, s)[headerSize:]) != string(b) {
			t.Errorf("%q is not %q", s, b)
		}
	})
}

func TestWanted(t *testing.T) {
	t.Parallel()
	for _, words := range [][]string{argv(true, false), argv(false, false), argv(true, true)} {
		if !Wanted(words) {
			t.Errorf("%q is not wanted", words)
		}
	}
	for _, words := range [][]string{nil, {"x"}, {"x", Arg}, {"x", Arg, "3"}, {"x", "sbxhost-init", "true"}, {"x", Arg, "true", "y"}} {
		if Wanted(words) {
			t.Errorf("%q is wanted", words)
		}
	}
	if wait := syscall.WaitStatus(9); !wait.Signaled() || wait.Signal() != syscall.SIGKILL {
		t.Error("a wait status travels as the kernel's own number")
	}
}
