package traced

import (
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/internal/frame"
)

func TestFold(t *testing.T) {
	t.Parallel()
	var f Fold
	a, b := Call{Read, "/a", syscall.ENOENT}, Call{Write, "/a", syscall.EROFS}
	for _, c := range []Call{a, b, b, a} {
		f.Add(c)
	}
	if got := f.Calls(); !reflect.DeepEqual(got, []Call{a, b}) {
		t.Errorf("%v", got)
	}
	for i := range 3 * MaxCalls {
		f.Add(Call{Read, "/" + strconv.Itoa(i), syscall.ENOENT})
	}
	got := f.Calls()
	if len(got) != MaxCalls || got[0].Target != "/"+strconv.Itoa(3*MaxCalls-1) {
		t.Errorf("%d calls, from %v on", len(got), got[0])
	}
	f.Add(Call{Read, strings.Repeat("x", MaxTarget+1), syscall.ENOENT})
	for i := range 200 {
		f.Add(Call{Read, strings.Repeat("x", 4000) + strconv.Itoa(i), syscall.ENOENT})
	}
	bytes := 0
	for _, c := range f.Calls() {
		bytes += len(c.Target)
	}
	if bytes > MaxBytes || bytes < MaxBytes/2 || bytes != f.bytes || len(f.calls) != f.order.Len() {
		t.Errorf("%d bytes, %d by its own count; %d and %d calls", bytes, f.bytes, len(f.calls), f.order.Len())
	}
	payload := frame.Payload(&Report{f.Calls()})
	var back Report
	if err := frame.Decode(payload, &back); err != nil || !reflect.DeepEqual(back.Calls, f.Calls()) || len(payload) > MaxReport {
		t.Errorf("%d bytes of payload: %v", len(payload), err)
	}
}

// A report is the command's word.
func TestReportIsChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Call{
		"no operation": {operations, "/a", syscall.ENOENT}, "no target": {Read, "", syscall.ENOENT},
		"a long one": {Read, strings.Repeat("x", MaxTarget+1), syscall.ENOENT}, "no such error": {Read, "/a", 0},
	} {
		if err := frame.Decode(frame.Payload(&Report{[]Call{c}}), &Report{}); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	many := make([]Call, MaxCalls+1)
	for i := range many {
		many[i] = Call{Read, "/a", syscall.ENOENT}
	}
	if err := frame.Decode(frame.Payload(&Report{many}), &Report{}); err == nil {
		t.Error("too many are taken")
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i := range Calls() {
		if Marked(uint32(Mark(i))) != &Calls()[i] || seen[Calls()[i].Name] {
			t.Errorf("%s: its mark is another's", Calls()[i].Name)
		}
		seen[Calls()[i].Name] = true
	}
	for _, data := range []uint32{0, mark - 1, mark + uint32(len(Calls())), 0xffff, 1<<31 | mark} {
		if w := Marked(data); w != nil {
			t.Errorf("%#x is %s", data, w.Name)
		}
	}
}

func TestWanted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args [6]uint64
		want Operation
	}{
		{"openat", [6]uint64{}, Read},
		{"openat", [6]uint64{0, 0, syscall.O_RDWR}, Write},
		{"openat", [6]uint64{0, 0, syscall.O_CREAT}, Write},
		{"faccessat", [6]uint64{0, 0, 4}, Read},
		{"faccessat", [6]uint64{0, 0, 6}, Write},
		{"execve", [6]uint64{1, 1, 3}, Execute},
		{"mkdirat", [6]uint64{}, Write},
		{"connect", [6]uint64{}, Connect},
	} {
		for i := range Calls() {
			if w := &Calls()[i]; w.Name == tt.name && w.Operation(&tt.args) != tt.want {
				t.Errorf("%s%v: %v", tt.name, tt.args, w.Operation(&tt.args))
			}
		}
	}
}
