package test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/config"
)

// docs/configuration.md says of each block, in a table below the heading with
// the block's name, which attributes there are.
func TestConfigurationIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	heading := ""
	row := regexp.MustCompile("^\\| `([a-z0-9_.]+)` \\|")
	for line := range strings.Lines(string(text)) {
		if h, ok := strings.CutPrefix(line, "## "); ok {
			heading = strings.TrimSpace(h)
		}
		m := row.FindStringSubmatch(line)
		switch {
		case m == nil, heading == "Expressions":
		default:
			block := heading
			if heading == "Top level" {
				block = ""
			}
			documented = append(documented, block+"."+m[1])
		}
	}
	var there []string
	for block, name := range config.Reference {
		there = append(there, block+"."+name)
	}
	compare(t, "attributes", documented, there)
}

func compare(t *testing.T, what string, documented, there []string) {
	t.Helper()
	for _, name := range there {
		if !slices.Contains(documented, name) {
			t.Errorf("%s: docs/configuration.md lacks %s", what, name)
		}
	}
	for _, name := range documented {
		if !slices.Contains(there, name) {
			t.Errorf("%s: docs/configuration.md has %s, which does not exist", what, name)
		}
	}
}

// ARCHITECTURE.md names every room, and no path that does not exist.
func TestArchitectureNamesTheRooms(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{"internal/engine": true, "internal/testing": true, "cmd/internal": true} // what lies in them is named
	for _, m := range regexp.MustCompile("`([a-z]+(?:/[A-Za-z0-9_.*-]+)+)`").FindAllStringSubmatch(string(text), -1) {
		named[m[1]] = true
		if there, err := filepath.Glob(filepath.Join("..", m[1])); err != nil || len(there) == 0 {
			t.Errorf("ARCHITECTURE.md names %s, which does not exist", m[1])
		}
	}
	for _, pattern := range []string{"cmd/*", "internal/*", "internal/engine/*", "plugins/*", "shared/*"} {
		rooms, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil || len(rooms) == 0 {
			t.Fatalf("%s: %v, %v", pattern, rooms, err)
		}
		for _, room := range rooms {
			if info, err := os.Stat(room); err != nil || info.IsDir() && !named[strings.TrimPrefix(room, "../")] {
				t.Errorf("ARCHITECTURE.md does not name %s, %v", room, err)
			}
		}
	}
}

// Links lead somewhere: to files that exist and to headings of theirs.
func TestDocsLinks(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, d := range documents(t) {
		prose := d.text
		for _, b := range d.blocks {
			prose = strings.Replace(prose, b.text, "", 1)
		}
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			target, fragment, _ := strings.Cut(m[1], "#")
			if strings.HasPrefix(target, "https://") {
				continue
			}
			path := filepath.Join("..", d.name)
			if target != "" {
				path = filepath.Join("..", filepath.Dir(d.name), target)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %s: %v", d.name, m[1], err)
				continue
			}
			if fragment == "" {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Errorf("%s: %s: %v", d.name, m[1], err)
			}
			found := false
			for line := range strings.Lines(string(text)) {
				h := strings.TrimSpace(strings.TrimLeft(line, "#"))
				found = found || strings.HasPrefix(line, "#") && strings.ReplaceAll(strings.ToLower(h), " ", "-") == fragment
			}
			if !found {
				t.Errorf("%s: %s: no such heading", d.name, m[1])
			}
		}
	}
}
