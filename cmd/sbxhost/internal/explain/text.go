package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// text formats an explanation for people: important notes, values that differ from the default, and
// an outline of the files, or each file, each value and what the engine does.
func (e *Report) text(all bool) string {
	var b strings.Builder
	notes := slices.Clone(e.Notes)
	for _, path := range e.Sensitive {
		notes = append(notes, cli.Quote(path)+" looks as if it held secrets, and is within reach")
	}
	if len(notes) > 0 {
		b.WriteString("Notes:\n" + cli.List("  ", notes) + "\n")
	}
	b.WriteString(cli.Table("", e.summary()))
	section := func(title string, rows [][]string) {
		if len(rows) > 0 {
			b.WriteString("\n" + title + "\n" + cli.Table("  ", rows))
		}
	}
	files := "Files besides filesystem " + strconv.Quote(e.Filesystem) + ":"
	if !all {
		section("Not the default:", settingRows(slices.DeleteFunc(slices.Clone(e.Settings), func(s settingJSON) bool {
			// The rules of a list follow it, each with its line.
			return !s.Differs || s.Attribute == "default_sandbox" || s.Attribute == "network" && len(e.Names) > 0
		})))
		section(files, e.filesInShort())
		section("Environment, by origin:", e.environment())
		b.WriteString("\nEach path, setting and system call: sbxhost explain -v\n")
		return b.String()
	}
	var rows [][]string
	at := view.HostPaths(e.Table)
	for _, entry := range e.Table {
		rows = append(rows, []string{entry.Access.String(), placeOf(&entry), missingEffect(&entry, at(&entry)), cli.Printable(entry.Why)})
	}
	section(files, rows)
	section("Environment, by origin:", e.environment())
	section("Settings, and where they came from:", settingRows(e.Settings))
	if len(e.Launcher) > 0 {
		fmt.Fprintf(&b, "\nLauncher:\n  %s\n", cli.ShellQuote(e.Launcher...))
	}
	for _, d := range e.Documents {
		fmt.Fprintf(&b, "\n%s:\n", cli.Printable(d.Name))
		for line := range strings.Lines(d.Text) {
			b.WriteString("  " + cli.Printable(strings.TrimSuffix(line, "\n")) + "\n")
		}
	}
	return b.String()
}

// filesInShort returns one row for all entries with the same access and origin.
func (e *Report) filesInShort() (rows [][]string) {
	row := map[[2]string]int{} // by access and origin
	count := map[int]int{}
	for _, entry := range e.Table {
		if entry.Why == view.OriginParent {
			continue
		}
		origin, _, cut := strings.Cut(entry.Why, ":")
		if !cut || strings.Contains(origin, `"`) { // of an element
			origin = entry.Why
		}
		key := [...]string{entry.Access.String(), origin}
		i, ok := row[key]
		if !ok {
			i, row[key] = len(rows), len(rows)
			rows = append(rows, []string{key[0], placeOf(&entry), cli.Printable(entry.Why)})
		}
		if count[i]++; ok {
			rows[i][1], rows[i][2] = fmt.Sprintf("%d paths", count[i]), cli.Printable(origin)
		}
	}
	return rows
}

// environment returns one row for each origin of variables.
func (e *Report) environment() (rows [][]string) {
	names := map[string][]string{}
	for _, v := range e.Env {
		names[v.Origin] = append(names[v.Origin], cli.Quote(v.Name))
	}
	for _, origin := range cli.SortedKeys(names) {
		rows = append(rows, []string{cli.Printable(origin), strings.Join(names[origin], " ")})
	}
	return rows
}

// placeOf says where an entry is inside, and where on the host.
func placeOf(e *shared.Entry) string {
	if e.Source == "" || e.Source == e.Path {
		return cli.Quote(e.Path)
	}
	return cli.Quote(e.Path) + " <- " + cli.Quote(e.Source)
}

// summary describes the command as a whole.
func (e *Report) summary() [][]string {
	config := "built in"
	if e.Config != "" {
		config = cli.Quote(e.Config) + " (" + e.Origin + ")"
	}
	rows := [][]string{
		{"sandbox", cli.Quote(e.Sandbox)},
		{"config", config},
		{"engine", cli.Quote(e.Engine) + " (" + cli.Quote(e.Source) + ")"},
		{"decision", e.decision()},
		{"network", e.network()},
		{"filesystem", e.Filesystem},
		{"directory", cli.Quote(e.Dir)},
	}
	add := func(wanted bool, name, text string) {
		if wanted {
			rows = append(rows, []string{name, text})
		}
	}
	add(e.Decision != "sandboxed", "because", cli.OneLine(e.Reason))
	add(e.Home != "", "home", cli.Quote(e.Home))
	if e.User != nil {
		add(true, "user", fmt.Sprintf("%d:%d", e.User.UID, e.User.GID))
	}
	if e.Session != nil {
		add(true, "session", cmp.Or(e.Session.Name, "ends with the command")+" ("+cli.Quote(e.Session.Dir)+")")
	}
	add(e.Script, "command", strings.TrimRight("a script "+cli.ShellQuote(e.Command...), " "))
	add(!e.Script && e.Command != nil, "command", cli.ShellQuote(e.Command...))
	add(e.TTY, "terminal", "of its own")
	return rows
}

// maxInLine is how many rules one line has.
const maxInLine = 3

// network says what the command can reach.
func (e *Report) network() string {
	text := e.Network
	if text == shared.NetworkNames.String() {
		text = "only " + cmp.Or(strings.Join(e.Names, ", "), "what no rule lists: nothing")
		if len(e.Names) > maxInLine {
			text = fmt.Sprintf("only the names of %d rules, which follow", len(e.Names))
		}
	}
	for _, port := range e.HostPorts {
		text += fmt.Sprintf("; port %d of the host's loopback", port)
	}
	for _, port := range e.Publish {
		text += "; publishes " + port
	}
	return cli.Printable(text)
}

// missingEffect says what an entry does while its path does not exist.
func missingEffect(e *shared.Entry, hostPath string) string {
	switch {
	case e.Missing == shared.MissingRefuse, exists(hostPath):
		return "-"
	case e.Missing == shared.MissingHold:
		return "held"
	}
	return "if it is there"
}

// decision says whether the command would run, and how.
func (e *Report) decision() string {
	text := e.Decision
	if e.Asks {
		text = "asks you first; unsandboxed if you approve"
	}
	return text + ", by rule " + e.Rule
}
