// Package prompt asks a person at the terminal, and nobody else: whether a command may run without
// a sandbox, and whether to trust a configuration.
package prompt

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/policy"
)

// Approve is the host's Approver: it asks a person at the terminal.
func Approve(ctx context.Context, a *cli.App, r host.ApprovalRequest) (policy.Approval, error) {
	whole := ""
	for {
		cut := false
		answer, err := ask(ctx, a, func(size host.TerminalSize) (text string) {
			text, cut = approvalQuestion(&r, size)
			return whole + text
		})
		if err != nil {
			return policy.Refused, err
		}
		if !cut || answer != "v" && answer != "view" {
			return approvalAnswer(answer, r.Remembers), nil
		}
		everything := question{text: math.MaxInt, lines: math.MaxInt}
		whole = everything.body(&r)
	}
}

// answers are what a person may type to approve.
var answers = map[string]policy.Approval{
	"o": policy.ApprovedOnce, "once": policy.ApprovedOnce, "y": policy.ApprovedOnce, "yes": policy.ApprovedOnce,
	"s": policy.ApprovedSession, "session": policy.ApprovedSession,
	"a": policy.ApprovedAlways, "always": policy.ApprovedAlways,
}

// approvalAnswer parses an answer. An unknown answer means no.
func approvalAnswer(answer string, remembers bool) policy.Approval {
	approval, known := answers[answer]
	if !known || approval != policy.ApprovedOnce && !remembers {
		return policy.Refused
	}
	return approval
}

// question says how much of a command a person sees.
type question struct {
	text  int  // runes of a text
	lines int  // of a script
	cut   bool // something was left out
}

// Bounds of the text that a question shows: at most, and at least on the smallest screen.
const (
	maxQuestionText, maxQuestionLines = 2000, 40
	minQuestionText, minQuestionLines = 60, 2
)

// approvalQuestion returns the question. It escapes all text that a command or a file name has
// chosen. It shows as much as the screen has space for: otherwise a long text could leave only its
// harmless end on the screen. It reports whether it left something out.
func approvalQuestion(r *host.ApprovalRequest, size host.TerminalSize) (text string, cut bool) {
	for q := (question{text: maxQuestionText, lines: maxQuestionLines}); ; q = (question{text: q.text / 2, lines: max(q.lines/2, minQuestionLines)}) {
		text := q.body(r) + q.choices(r)
		if fits(text, size) || q.text/2 < minQuestionText {
			return text, q.cut
		}
	}
}

// fits reports whether a terminal shows a text completely. It is true for an unknown size.
func fits(text string, size host.TerminalSize) bool {
	return size.Rows == 0 || size.Cols == 0 || rows(text+"\n", int(size.Cols)) <= int(size.Rows)
}

// rows returns how many lines a text takes on a terminal of so many columns.
func rows(text string, columns int) (n int) {
	for line := range strings.Lines(text) {
		width := 0
		for _, r := range strings.TrimSuffix(line, "\n") {
			switch {
			case r == '\t':
				width += 8
			case r >= 0x1100: // about all that are two columns wide
				width += 2
			default:
				width++
			}
		}
		n += max(1, (width+columns-1)/columns)
	}
	return n
}

func (q *question) body(r *host.ApprovalRequest) string {
	var b strings.Builder
	b.WriteString("\nsbxhost: this command would run WITHOUT a sandbox:\n\n")
	rows := [][]string{}
	add := func(name, text string) { rows = append(rows, []string{name, text}) }
	if r.Script == "" {
		add("  command", q.shorten(inOrder(r.Args)))
	} else {
		add("  script", fmt.Sprintf("%s, shown below", cli.Plural(strings.Count(strings.TrimSuffix(r.Script, "\n"), "\n")+1, "line")))
		if len(r.Args) > 0 {
			add("  arguments", q.shorten(inOrder(r.Args)))
		}
	}
	add("  directory", q.shorten(pathInOrder(r.Dir)))
	if r.Workspace != r.Dir {
		add("  workspace", q.shorten(pathInOrder(r.Workspace)))
	}
	add("  sandbox", q.shorten(cli.Quote(r.Sandbox)))
	add("  because", q.shorten(cli.OneLine(r.Decision.Reason)))
	if r.Decision.Hint != "" {
		add("  fix", q.shorten(cli.OneLine(r.Decision.Hint)))
	}
	add("  it has", cli.OneLine(strings.Join(r.Decision.Exposure, "; ")))
	if len(r.Decision.Sensitive) > 0 {
		add("  secrets", q.shorten(inOrder(r.Decision.Sensitive))+" within its reach")
	}
	if len(r.Env) > 0 {
		add("  sets", q.shorten(inOrder(r.Env)))
	}
	for _, w := range r.Warnings {
		add("  note", cli.OneLine(w))
	}
	b.WriteString(cli.Table("", rows))
	if r.Script != "" {
		b.WriteString("\n" + q.scriptText(r.Script))
	}
	return b.String()
}

func (q *question) choices(r *host.ApprovalRequest) string {
	text := "\nRun it? [o]nce"
	if r.Remembers {
		text += fmt.Sprintf(", for the [s]ession (%s), [a]lways", cli.ShortTime(r.SessionTTL))
	}
	if q.cut {
		text += ", [v]iew all of it"
	}
	return text + ", [N]o: "
}

// rightToLeft reports whether a letter is of a right-to-left script. Between two of these, and
// after one, a terminal may show words, numbers and signs in the opposite order, for example the
// source and the target of a copy. A command could do this without any invisible character.
func rightToLeft(r rune) bool {
	return r >= 0x0590 && r <= 0x08ff || r >= 0xfb1d && r <= 0xfdff || r >= 0xfe70 && r <= 0xfeff || r >= 0x10800 && r <= 0x10fff || r >= 0x1e800 && r <= 0x1efff
}

// inOrder quotes words for a shell, with escapes in place of invisible letters and letters that are
// written from right to left.
func inOrder(words []string) string {
	return hostpath.ShellQuotedFor(func(r rune) bool { return hostpath.Visible(r) && !rightToLeft(r) }, words...)
}

// pathInOrder is the same for Quote.
func pathInOrder(path string) string {
	if strings.ContainsFunc(path, rightToLeft) {
		return strconv.QuoteToASCII(path)
	}
	return cli.Quote(path)
}

// lineInOrder is the same for a line of text.
func lineInOrder(line string) string {
	var b strings.Builder
	for _, r := range line {
		if rightToLeft(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// shorten leaves out the middle of a long text, and says so.
func (q *question) shorten(s string) string {
	n := utf8.RuneCountInString(s)
	if n <= q.text {
		return s
	}
	q.cut = true
	runes := []rune(s)
	half := q.text / 2
	return fmt.Sprintf("%s [... %d CHARACTERS ARE LEFT OUT HERE ...] %s", string(runes[:half]), n-2*half, string(runes[n-half:]))
}

// scriptText shows a script line by line.
func (q *question) scriptText(script string) string {
	lines := strings.Split(strings.TrimSuffix(script, "\n"), "\n")
	var b strings.Builder
	for i, line := range lines {
		if left := len(lines) - q.lines; left > 1 && i >= q.lines/2 && i < len(lines)-q.lines/2 {
			if i == q.lines/2 {
				q.cut = true
				fmt.Fprintf(&b, "  [... %d LINES ARE LEFT OUT HERE ...]\n", left)
			}
			continue
		}
		// A tab at the right margin moves nothing, and elsewhere it can move far.
		b.WriteString("  | " + q.shorten(strings.ReplaceAll(lineInOrder(cli.Printable(line)), "\t", "    ")) + "\n")
	}
	return b.String()
}
