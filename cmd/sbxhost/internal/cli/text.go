package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Table gives rows as lines with their columns aligned.
func Table(indent string, rows [][]string) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := indent
		for i, cell := range row {
			line += cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// List gives texts as the items of a list.
func List(indent string, texts []string) string {
	var b strings.Builder
	for _, text := range texts {
		b.WriteString(indent + "- " + OneLine(text) + "\n")
	}
	return b.String()
}

func Quote(s string) string { return hostpath.Shown(s) }

// QuoteAll is a command line that a shell would read the same way.
func QuoteAll(args []string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = ShellQuote(arg)
	}
	return strings.Join(quoted, " ")
}

func ShellQuote(s string) string { return hostpath.ShellQuoted(s) }

// OneLine keeps text from looking like more of the question than it is.
func OneLine(s string) string { return Printable(strings.ReplaceAll(s, "\n", " ")) }

// ShortTime is a duration as people write it: "6h", not "6h0m0s".
func ShortTime(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func IsTerminal(stream any) bool {
	f, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// Size is that of a terminal in characters; zero for what is none.
func Size(stream any) (columns, rows int) {
	if !IsTerminal(stream) {
		return 0, 0
	}
	columns, rows, err := term.GetSize(int(stream.(interface{ Fd() uintptr }).Fd()))
	if err != nil {
		return 0, 0
	}
	return columns, rows
}

// Printable keeps text that an engine or a file name has chosen from acting on
// the terminal, and from hiding a part of itself. Lines stay lines.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !hostpath.Visible(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// Plural is "1 error", "2 errors".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
