package seccomp

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sbxhost/sbxhost/internal/engine/traced"
)

// kernelNumbers are the calls of both architectures by golang.org/x/sys, by
// lower-case name. Its source is read, since a program has those of its own
// architecture alone.
var kernelNumbers = sync.OnceValues(func() (map[string]map[string]uint32, error) {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "golang.org/x/sys/unix").Output()
	if err != nil {
		return nil, err
	}
	numbers := map[string]map[string]uint32{}
	for _, goarch := range []string{"amd64", "arm64"} {
		numbers[goarch] = map[string]uint32{}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "zsysnum_linux_"+goarch+".go"), nil, 0)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 {
				return true
			}
			name, sys := strings.CutPrefix(v.Names[0].Name, "SYS_")
			if lit, ok := v.Values[0].(*ast.BasicLit); ok && sys {
				if n, err := strconv.ParseUint(lit.Value, 0, 32); err == nil {
					numbers[goarch][strings.ToLower(name)] = uint32(n)
				}
			}
			return true
		})
	}
	return numbers, nil
})

func known(t testing.TB) map[string]map[string]uint32 {
	t.Helper()
	numbers, err := kernelNumbers()
	if err != nil {
		t.Fatal(err)
	}
	return numbers
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	numbers := known(t)
	for _, a := range arches {
		if len(numbers[a.goarch]) < 300 {
			t.Fatalf("%s: only %d calls were found", a.goarch, len(numbers[a.goarch]))
		}
		for _, c := range calls {
			got := a.numberOf(c.name)
			want, ok := numbers[a.goarch][c.name]
			if !ok {
				want = absent
			}
			if got != want {
				t.Errorf("%s on %s: %d, want %d", c.name, a.goarch, got, want)
			}
		}
		for name, n := range numbers[a.goarch] {
			if n > newest {
				t.Errorf("%s: %s is %d: decide whether a rule must name it, then raise newest", a.goarch, name, n)
			}
		}
	}
}

// Every rule names calls that there are, and every number serves a rule.
func TestRulesAndNumbersAgree(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, r := range rules(Options{NoNetwork: true, Unhidden: true, NoTruncation: true}) {
		for _, name := range r.calls {
			used[name] = true
		}
		if r.why == "" {
			t.Errorf("%v: no reason is given", r.calls)
		}
	}
	for i := range traced.Calls() {
		used[traced.Calls()[i].Name] = true
	}
	for i, c := range calls {
		if !used[c.name] {
			t.Errorf("neither a rule nor a trace names %s", c.name)
		}
		if i > 0 && calls[i-1].name >= c.name {
			t.Errorf("%s is out of order", c.name)
		}
	}
	if _, err := New("riscv64", Options{}); err == nil || !strings.Contains(err.Error(), "riscv64") {
		t.Errorf("New for an architecture without numbers: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a rule about an unknown call became a filter")
		}
	}()
	compile(arches[0], []rule{{deny: eperm, calls: []string{"no_such_call"}}})
}
