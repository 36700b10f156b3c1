package cli

import (
	"bufio"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Table formats rows as lines with aligned columns. A line end or a tab in a cell is a space.
func Table(indent string, rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	flat := strings.NewReplacer("\n", " ", "\t", " ")
	for _, row := range rows {
		fmt.Fprintln(w, indent+flat.Replace(strings.Join(row, "\v"))) // a vertical tab ends a cell, too
	}
	w.Flush()
	return b.String()
}

// List formats texts as the items of a list.
func List(indent string, texts []string) string {
	var b strings.Builder
	for _, text := range texts {
		b.WriteString(indent + "- " + OneLine(text) + "\n")
	}
	return b.String()
}

func Quote(s string) string { return hostpath.Shown(s) }

func ShellQuote(words ...string) string { return hostpath.ShellQuoted(words...) }

// OneLine joins the lines of text, so that it cannot imitate more lines of a question.
func OneLine(s string) string { return Printable(strings.ReplaceAll(s, "\n", " ")) }

var noTime = regexp.MustCompile(`([hm])(0m)?0s$`)

// ShortTime formats a duration as people write it: "6h", not "6h0m0s".
func ShortTime(d time.Duration) string { return noTime.ReplaceAllString(d.String(), "$1") }

func IsTerminal(stream any) bool {
	f, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// Size returns a terminal's size in characters; zero if stream is not a terminal.
func Size(stream any) (columns, rows int) {
	if f, ok := stream.(interface{ Fd() uintptr }); ok {
		columns, rows, _ = term.GetSize(int(f.Fd()))
	}
	return columns, rows
}

// Printable escapes characters in a text from an engine or a file name that act on the terminal or
// hide a part of the text. It keeps line ends.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !hostpath.Visible(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// Escape writes text that a command can have made, so that it cannot act on the terminal. It keeps line ends.
func Escape(w *bufio.Writer, text string, color bool) {
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		one := text[:size]
		text = text[size:]
		switch {
		case r == utf8.RuneError && size == 1:
			one = fmt.Sprintf(`\x%02x`, one[0])
		case r != '\t' && Printable(one) != one:
			one = strings.Trim(strconv.QuoteRuneToASCII(r), "'")
		default:
			w.WriteString(one)
			continue
		}
		if color {
			one = "\x1b[7m" + one + "\x1b[27m"
		}
		w.WriteString(one)
	}
}

// Plural returns "1 error", "2 errors".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
