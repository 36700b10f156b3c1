package shared

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/paths"
)

func TestTableForm(t *testing.T) {
	t.Parallel()
	for want, table := range map[string][]Entry{
		"":                                 {{Path: "/a"}, {Path: "/a/b", Access: Private}, {Path: "/a/b/c", Source: "/x", Access: Overlay, Missing: MissingHold}},
		"table[1]: path \"/a\" is that":    {{Path: "/a"}, {Path: "/a", Source: "/x", Access: ReadOnly}},
		"table[0]: path: \"a\" is not":     {{Path: "a"}},
		"table[0]: path: \"/a/../b\"":      {{Path: "/a/../b"}},
		"table[0]: source: \"\" is not":    {{Path: "/a", Access: ReadOnly}},
		"table[0]: source: \"/x/\" is not": {{Path: "/a", Source: "/x/", Access: ReadWrite}},
		"table[0]: what is hidden has":     {{Path: "/a", Source: "/x"}},
		"table[0]: what is private has":    {{Path: "/a", Source: "/x", Access: Private}},
		"table[0]: unknown access":         {{Path: "/a", Access: 5}},
		"table[0]: unknown value":          {{Path: "/a", Missing: 3}},
	} {
		err := (&Spec{Table: table}).Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%+v: %v, want %q", table, err, want)
		}
	}
}

func TestCover(t *testing.T) {
	t.Parallel()
	table := []Entry{
		{Path: "/", Source: "/host", Access: ReadOnly}, {Path: "/a", Source: "/x", Access: ReadWrite}, {Path: "/a/b"}, {Path: "/a/b/c", Source: "/y", Access: ReadOnly},
		{Path: "/a/tmp", Access: Private},
	}
	for p, want := range map[string]string{
		"/": "/ /host", "/z/y": "/ /host/z/y", "/a": "/a /x", "/a/d": "/a /x/d", "/a/bc": "/a /x/bc", "/a/b": "/a/b ", "/a/b/d": "/a/b ", "/a/b/c/d": "/a/b/c /y/d", "/a/tmp/x": "/a/tmp ",
	} {
		e, host := Cover(table, p)
		if e == nil || e.Path+" "+host != want {
			t.Errorf("%s: %+v, %q", p, e, host)
		}
	}
	if e, host := Cover(table[1:], "/z"); e != nil || host != "" {
		t.Errorf("%+v, %q", e, host)
	}
}

func TestPins(t *testing.T) {
	t.Parallel()
	ws := Entry{Path: "/ws", Source: "/src", Access: ReadWrite}
	for name, tt := range map[string]struct {
		table []Entry
		want  string
	}{
		"nothing":               {nil, ""},
		"at the top":            {[]Entry{ws, {Path: "/ws/.env"}}, ""},
		"hidden":                {[]Entry{ws, {Path: "/ws/a/b/.env"}}, "/ws/a<-/src/a /ws/a/b<-/src/a/b"},
		"read-only":             {[]Entry{ws, {Path: "/ws/a/ro", Source: "/src/a/ro", Access: ReadOnly}}, "/ws/a<-/src/a"},
		"writable":              {[]Entry{ws, {Path: "/ws/a/rw", Source: "/other", Access: ReadWrite}, {Path: "/ws/a/rw/b/c"}}, "/ws/a<-/src/a /ws/a/rw/b<-/other/b"},
		"private":               {[]Entry{ws, {Path: "/ws/a/tmp", Access: Private}, {Path: "/ws/a/tmp/b/c"}}, "/ws/a<-/src/a"},
		"overlay":               {[]Entry{{Path: "/ws", Source: "/src", Access: Overlay}, {Path: "/ws/a/.env"}}, "/ws/a<-/src/a overlay"},
		"in what is read-only":  {[]Entry{ws, {Path: "/ws/a", Source: "/src/a", Access: ReadOnly}, {Path: "/ws/a/b/.env"}}, ""},
		"in what is hidden":     {[]Entry{ws, {Path: "/ws/a"}, {Path: "/ws/a/b/c", Source: "/x", Access: ReadOnly}}, ""},
		"several in one":        {[]Entry{ws, {Path: "/ws/a/b/x"}, {Path: "/ws/a/c/x"}, {Path: "/ws/a/x"}, {Path: "/ws/a-b/x"}}, "/ws/a<-/src/a /ws/a/b<-/src/a/b /ws/a/c<-/src/a/c /ws/a-b<-/src/a-b"},
		"in any order":          {[]Entry{{Path: "/ws/a/.env"}, ws}, "/ws/a<-/src/a"},
		"the root":              {[]Entry{{Path: "/", Source: "/src", Access: ReadWrite}, {Path: "/a/.env"}}, "/a<-/src/a"},
		"in the host's root":    {[]Entry{{Path: "/ws", Source: "/", Access: ReadWrite}, {Path: "/ws/a/.env"}}, "/ws/a<-/a"},
		"a name's beginning":    {[]Entry{ws, {Path: "/ws-2/a/.env"}}, ""},
		"beside what is in one": {[]Entry{ws, {Path: "/ws/a/ro", Source: "/x", Access: ReadOnly}, {Path: "/ws/a/ro-2/b"}}, "/ws/a<-/src/a /ws/a/ro-2<-/src/a/ro-2"},
	} {
		var got []string
		for _, pin := range Pins(tt.table) {
			word := pin.Path + "<-" + pin.Source
			if pin.Access != ReadWrite {
				word += " " + pin.Access.String()
			}
			got = append(got, word)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	pins := Pins([]Entry{ws, {Path: "/ws/a/x", Why: "the reason"}})
	if len(pins) != 1 || pins[0].Why != "the reason" {
		t.Errorf("%+v", pins)
	}
}

// Whatever lies where, each directory that a command could move with an entry in
// it is pinned, and nothing else is.
func FuzzPins(f *testing.F) {
	f.Add([]byte{2, 0, 1, 2, 0, 0, 1, 0, 0})
	f.Add([]byte{3, 0, 0, 1, 1, 2, 1, 0, 4, 0, 2, 1, 1, 2})
	f.Fuzz(func(t *testing.T, given []byte) {
		names := [...]string{"", "/a", "/b", "/a-b"}
		var table []Entry
		for ; len(given) >= 4; given = given[4:] {
			p := path.Clean("/" + names[given[1]%4] + names[given[2]%4] + names[given[3]%4])
			if slices.ContainsFunc(table, func(e Entry) bool { return e.Path == p }) {
				continue
			}
			e := Entry{Path: p, Access: Access(given[0] % 5)}
			if e.Access.Shows() {
				e.Source = fmt.Sprint("/s", len(table))
			}
			table = append(table, e)
		}
		want := map[string]string{}
		for _, e := range table {
			for dir := path.Dir(e.Path); dir != "/"; dir = path.Dir(dir) {
				around := deepest(table, dir)
				if around != nil && around.Path != dir && (around.Access == ReadWrite || around.Access == Overlay) {
					if deepest(table, path.Dir(e.Path)) == around {
						want[dir] = path.Join(around.Source, strings.TrimPrefix(dir, around.Path)) + around.Access.String()
					}
				}
			}
		}
		pins := Pins(table)
		for i, pin := range pins {
			if want[pin.Path] != pin.Source+pin.Access.String() {
				t.Errorf("%+v of %+v, want %q", pin, table, want[pin.Path])
			}
			if i > 0 && paths.Compare(pins[i-1].Path, pin.Path) >= 0 {
				t.Errorf("order: %+v", pins)
			}
		}
		if len(pins) != len(want) {
			t.Errorf("%+v has pins %+v, want %v", table, pins, want)
		}
	})
}

// deepest is Cover by a look at all entries.
func deepest(table []Entry, p string) (found *Entry) {
	for i := range table {
		if e := &table[i]; paths.Inside(e.Path, p) && (found == nil || len(e.Path) > len(found.Path)) {
			found = e
		}
	}
	return found
}

func BenchmarkPins(b *testing.B) {
	for _, n := range []int{1000, 2000, 4000} {
		table := []Entry{{Path: "/ws", Source: "/src", Access: ReadWrite}}
		for i := range n {
			table = append(table, Entry{Path: fmt.Sprintf("/ws/%d/some/deep/place/.env", i)})
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				Pins(table)
			}
		})
	}
}

func TestLimitOfCPUs(t *testing.T) {
	t.Parallel()
	for _, cpus := range []float64{-1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		if err := (&Spec{Limits: Limits{CPUs: cpus}}).Validate(); !errors.Is(err, ErrInvalidSpec) {
			t.Errorf("%v: %v", cpus, err)
		}
	}
}
