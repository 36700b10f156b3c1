package config

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"
)

func TestReference(t *testing.T) {
	t.Parallel()
	n := 0
	for range Reference {
		n++
	}
	if n < 30 {
		t.Errorf("only %d attributes", n)
	}
}

// docs/configuration.md lists the functions.
func TestFunctionsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^Functions: (.*), as in`).FindStringSubmatch(string(text))
	if line == nil {
		t.Fatal("no line of functions")
	}
	var documented []string
	for _, m := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(line[1], -1) {
		documented = append(documented, m[1])
	}
	slices.Sort(documented)
	if there := slices.Sorted(maps.Keys(functions())); !slices.Equal(documented, there) {
		t.Errorf("documented %q, and there are %q", documented, there)
	}
}
