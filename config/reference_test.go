package config

import (
	"slices"
	"testing"
)

func TestReference(t *testing.T) {
	t.Parallel()
	refs := Reference()
	if n := len(refs); n < 30 {
		t.Errorf("only %d attributes", n)
	}
	if names := FunctionNames(); !slices.IsSorted(names) || !slices.Contains(names, "coalesce") {
		t.Errorf("%q", names)
	}
}
