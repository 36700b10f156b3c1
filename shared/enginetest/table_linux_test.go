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

var update = flag.Bool("update", false, "write the table of docs/probes.md from what is found here")

const (
	securityDoc = "../../docs/probes.md"
	tableBegin  = "<!-- probes: go test ./shared/enginetest -run SecurityTable -update -->\n"
	tableEnd    = "<!-- end of probes -->\n"
)

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
	{"seatbelt, on the model", elsewhere},
	{"bwrap as commonly written", plain(naive)},
	{"no sandbox", plain(noop.New)},
}

// promising is how many of the columns are of engines that promise to isolate.
const promising = 5

// elsewhere is of a column that a test of the engine itself holds: no Mac is asked
// here.
func elsewhere(*testing.T) (shared.Engine, enginetest.Options) { return nil, enginetest.Options{} }

func plain(engine func() shared.Engine) func(*testing.T) (shared.Engine, enginetest.Options) {
	return func(*testing.T) (shared.Engine, enginetest.Options) { return engine(), enginetest.Options{} }
}

// cell is what the table says of a result.
func cell(s enginetest.Status, works bool) string {
	switch s {
	case enginetest.Held:
		if works {
			return "works"
		}
		return "held"
	case enginetest.Leaked:
		return "**leaks**"
	case enginetest.Failed, enginetest.ControlFailed:
		return "fails"
	}
	return "-"
}

// TestSecurityTable holds the table in docs/probes.md to what is found. A cell
// is compared where this machine and user can tell: what does not apply
// here was found elsewhere.
func TestSecurityTable(t *testing.T) {
	t.Parallel()
	e := bwrap.New()
	if p, err := e.Probe(t.Context()); err != nil || !p.Ready {
		if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "bwrap") {
			t.Fatalf("bwrap is required and not ready: %v %s", err, p.Reason)
		}
		t.Skipf("bwrap is not ready: %v %s", err, p.Reason)
	}
	text, err := os.ReadFile(securityDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), tableBegin)
	old, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the table", securityDoc)
	}
	documented := parseTable(old)
	found := make([]map[string]enginetest.Result, len(columns))
	for i, c := range columns {
		if testing.Short() {
			break // the tests of the engines themselves run the kit; here it is about the document
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
		}
		t.Logf("%s: %s", c.name, results.Summary())
	}
	var table strings.Builder
	group := enginetest.Group("")
	for _, p := range enginetest.Probes() {
		if p.Group != group {
			group = p.Group
			fmt.Fprintf(&table, "\n### %s\n\n| probe | what is tried |", group)
			for _, c := range columns {
				fmt.Fprintf(&table, " %s |", c.name)
			}
			fmt.Fprintf(&table, "\n|%s\n", strings.Repeat("---|", 2+len(columns)))
		}
		row := []string{p.ID, strings.ReplaceAll(p.Title, "|", `\|`)}
		for i := range columns {
			r, was := found[i][p.ID], ""
			if line := documented[p.ID]; len(line) > 2+i {
				was = line[2+i]
			}
			now := cell(r.Status, p.MustWork)
			if found[i] == nil {
				row = append(row, was) // as it is
				continue
			}
			if *update {
				if now == "-" && was != "" && r.Status == enginetest.NotApplicable {
					now = was // found on another machine
				}
			} else if !agrees(i, was, now, r.Status, p.Varies) {
				t.Errorf("%s, %s: the document says %q and found is %q: %s", p.ID, columns[i].name, was, now, r.Detail)
			}
			row = append(row, now)
		}
		if line := documented[p.ID]; !*update && (len(line) < 2 || line[1] != row[1]) {
			t.Errorf("%s: the document does not have its title: %q", p.ID, line)
		}
		fmt.Fprintf(&table, "| %s |\n", strings.Join(row, " | "))
	}
	table.WriteString("\n")
	if *update {
		if err := os.WriteFile(securityDoc, []byte(before+tableBegin+table.String()+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// agrees says whether a cell of the document can stand. What does not apply here
// was found elsewhere, and what did not there may be found here. Without isolation
// it matters who asks, and the document tells of root.
func agrees(column int, was, now string, status enginetest.Status, varies bool) bool {
	switch {
	case was == now, status == enginetest.NotApplicable:
		return true
	case column >= promising && os.Geteuid() != 0:
		return true
	case column > 0 && (was == "fails" || now == "fails"):
		return true // what a launcher without an init makes of a signal is a matter of timing
	case was == "-" && varies:
		return now == "held" || column >= promising
	}
	return false
}

// parseTable gives the rows by their first cell.
func parseTable(text string) map[string][]string {
	rows := map[string][]string{}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) == 2+len(columns) {
			rows[cells[0]] = cells
		}
	}
	return rows
}
