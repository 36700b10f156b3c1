package enginetest_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/plugins/bwrap"
	"github.com/sbxhost/sbxhost/plugins/landlock"
	"github.com/sbxhost/sbxhost/plugins/native"
	"github.com/sbxhost/sbxhost/plugins/noop"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest"
)

var table = flag.String("table", "", "write the table of probes, with what is found here, to a file")

// columns are the engines that the table compares.
var columns = []struct {
	name string
	// engine gives nil where this machine is not asked about the column.
	engine func(*testing.T) (shared.Engine, enginetest.Options)
}{
	{"native engine", plain(native.New)},
	{"bwrap engine", plain(bwrap.New)},
	{"docker engine", containers},
	{"landlock engine", plain(landlock.New)},
	{"bwrap as commonly written", plain(naive)},
	{"no sandbox", plain(noop.New)},
}

// promising is how many of the columns are of engines that promise to isolate.
const promising = 4

// leaking are probes of such engines that leak, as their pages say.
var leaking = map[string][]string{"docker engine": {"proc.05"}}

func plain(engine func() shared.Engine) func(*testing.T) (shared.Engine, enginetest.Options) {
	return func(*testing.T) (shared.Engine, enginetest.Options) { return engine(), enginetest.Options{} }
}

// cell is what the table says of a result: "-" where the engine does not claim this, or a machine like this one refuses
// the action to everybody.
func cell(s enginetest.Status, works bool) string {
	switch s {
	case enginetest.Held:
		if works {
			return "works"
		}
		return "held"
	case enginetest.Leaked:
		return "**leaks**"
	case enginetest.Failed, enginetest.Hung, enginetest.ControlFailed:
		return "fails"
	}
	return "-"
}

// TestTableOfProbes tries all probes on all engines, and on none; a short run on none alone, where many have to leak.
func TestTableOfProbes(t *testing.T) {
	t.Parallel()
	e := bwrap.New()
	if p, err := e.Probe(t.Context()); err != nil || !p.Ready {
		if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "bwrap") {
			t.Fatalf("bwrap is required and not ready: %v %s", err, p.Reason)
		}
		t.Skipf("bwrap is not ready: %v %s", err, p.Reason)
	}
	found := make([]map[string]enginetest.Result, len(columns))
	for i, c := range columns {
		if testing.Short() && i < len(columns)-1 {
			continue // the engines' own tests run the kit
		}
		engine, o := c.engine(t)
		if engine == nil {
			continue
		}
		o.ProbesOnly, o.Unconfined = true, true
		results := suite(t, engine, o).Run(t.Context(), nil)
		found[i] = map[string]enginetest.Result{}
		for _, r := range results.Results {
			found[i][r.ID] = r
			if i < promising && r.Status == enginetest.Leaked && !slices.Contains(leaking[c.name], r.ID) {
				t.Errorf("%s, %s leaks: %s", r.ID, c.name, r.Detail)
			}
		}
		if i == len(columns)-1 && !slices.ContainsFunc(results.Results, func(r enginetest.Result) bool { return r.Status == enginetest.Leaked }) {
			t.Errorf("%s: no probe finds that: %s", c.name, results.Summary())
		}
		t.Logf("%s: %s", c.name, results.Summary())
	}
	var text strings.Builder
	group := enginetest.Group("")
	for _, p := range enginetest.Probes() {
		if p.Group != group {
			group = p.Group
			fmt.Fprintf(&text, "\n## %s\n\n| probe | what is tried |", group)
			for _, c := range columns {
				fmt.Fprintf(&text, " %s |", c.name)
			}
			fmt.Fprintf(&text, "\n|%s\n", strings.Repeat("---|", 2+len(columns)))
		}
		row := []string{p.ID, strings.ReplaceAll(p.Title, "|", `\|`)}
		for i := range columns {
			row = append(row, cell(found[i][p.ID].Status, p.MustWork))
		}
		fmt.Fprintf(&text, "| %s |\n", strings.Join(row, " | "))
	}
	if *table != "" {
		if err := os.WriteFile(*table, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
