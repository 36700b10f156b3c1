package source

import (
	"io"
	"strings"
	"testing"
)

// A file that somebody else wrote can have a mistake in each of a hundred thousand lines: what one of
// them costs does not depend on the others.
func TestWriteLooksAtOneLine(t *testing.T) { // not parallel: AllocsPerRun counts those of all tests
	_, diags := Parse("x.hcl", []byte(strings.Repeat("a = 1\n", 2000)))
	if len(diags) != 1999 {
		t.Fatalf("%d diagnostics", len(diags))
	}
	last := diags[len(diags)-1:]
	var text strings.Builder
	if err := Write(&text, last, false, 0); err != nil || !strings.Contains(text.String(), "on x.hcl line 2000:\n2000: a = 1\n") {
		t.Errorf("%v\n%s", err, &text)
	}
	if n := testing.AllocsPerRun(1, func() { Write(io.Discard, last, false, 0) }); n > 200 {
		t.Errorf("%v allocations for one line", n)
	}
}
