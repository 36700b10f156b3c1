package config

import (
	"slices"
	"testing"
)

// Every entry of unbuilt speaks of an attribute that there is.
func TestReferenceNamesWhatIsRefused(t *testing.T) {
	t.Parallel()
	refs := Reference()
	for i := range unbuilt {
		if !slices.ContainsFunc(refs, func(a AttributeReference) bool { return a.Block+"."+a.Name == unbuilt[i].path }) {
			t.Errorf("%s is refused, and is no attribute", unbuilt[i].path)
		}
	}
	if n := len(refs); n < 30 {
		t.Errorf("only %d attributes", n)
	}
	if names := FunctionNames(); !slices.IsSorted(names) || !slices.Contains(names, "coalesce") {
		t.Errorf("%q", names)
	}
}
