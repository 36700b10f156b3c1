package hostpath

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sbxhost/sbxhost/internal/paths"
)

// maxShown is how many bytes of a path a message shows: two lines of a terminal, and longer than
// nearly all paths. A command can make paths of 4096 bytes.
const maxShown = 240

// Quote returns a path for a message: on one line, between double quotes, without characters that a
// terminal acts on or that a reader does not see, and, if it is long, without its middle. Otherwise
// a name with a newline could forge lines of a message, and one with bidirectional characters would
// be read backwards.
func Quote(p string) string {
	p = shorten(p, maxShown)
	if strings.ContainsFunc(p, func(r rune) bool { return !Visible(r) }) {
		return strconv.QuoteToASCII(p)
	}
	return strconv.Quote(p)
}

// maxLine is how many bytes a message about a few paths has at most.
const maxLine = 4000

// Line makes a message one safe line, whatever paths it contains: it replaces invisible characters
// and those that a terminal acts on, and leaves out the middle of a long message. It is the last
// resort, for errors of the system with raw paths; Quote also shows where a path begins and ends.
func Line(message string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !Visible(r):
			return unicode.ReplacementChar
		}
		return r
	}, shorten(message, maxLine))
}

// shorten leaves out the middle of a text longer than n bytes. It cuts no character in two; it
// leaves bytes that are not text unchanged.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	half := (n - len("...")) / 2
	from, to := half, len(s)-half
	for i := 0; i < utf8.UTFMax && from > 0 && !utf8.RuneStart(s[from]); i++ {
		from--
	}
	for i := 0; i < utf8.UTFMax && to < len(s) && !utf8.RuneStart(s[to]); i++ {
		to++
	}
	return s[:from] + "..." + s[to:]
}

// Visible reports whether everybody sees a character as itself. Some printable characters are drawn
// as nothing, or look like a space and separate no words.
func Visible(r rune) bool {
	return unicode.IsPrint(r) && r != unicode.ReplacementChar && r != '\u2800' &&
		!unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// maxListed is how many names of a list a message shows.
const maxListed = 10

// EscapeJSON writes those characters of a JSON text that shown does not accept as escapes. Outside
// of its strings, JSON has only printable ASCII and white space.
func EscapeJSON(text string, shown func(rune) bool) string {
	var b strings.Builder
	for _, r := range text {
		if shown(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// QuoteList shows the first paths, and how many more there are. A command can make a hundred
// thousand.
func QuoteList(paths []string) string {
	var quoted []string
	for _, p := range paths[:min(len(paths), maxListed)] {
		quoted = append(quoted, Quote(p))
	}
	list := strings.Join(quoted, ", ")
	if more := len(paths) - maxListed; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// MostIn returns the deepest directory that contains more than half of some absolute, clean paths,
// and how many it contains. It is for refusals of too many paths: it says where to look.
func MostIn(list []string) (dir string, n int) {
	if len(list) == 0 {
		return "/", 0
	}
	// In sorted order, the paths in one directory are consecutive. So a directory with more than half of
	// all paths contains the middle one.
	middle := slices.Sorted(slices.Values(list))[len(list)/2]
	for dir = range paths.Up(path.Dir(middle)) {
		n = 0
		for _, p := range list {
			if p != dir && paths.Inside(dir, p) {
				n++
			}
		}
		if 2*n > len(list) {
			break
		}
	}
	return dir, n
}

// Shown leaves plain text alone, and quotes all other text so that its ends and its content are
// clear, also before a note such as " (directory)" or "; refused".
func Shown(s string) string {
	switch {
	case strings.ContainsFunc(s, func(r rune) bool { return !Visible(r) }):
		return strconv.QuoteToASCII(s)
	case s == "" || strings.ContainsAny(s, `"'\`) || strings.Contains(s, " (") || strings.Contains(s, "; "):
		return strconv.Quote(s)
	}
	return s
}

// ShellQuoted returns a command line that a shell reads as these words.
func ShellQuoted(words ...string) string { return ShellQuotedFor(Visible, words...) }

// ShellQuotedFor is ShellQuoted with the caller's choice of visible characters.
func ShellQuotedFor(shown func(rune) bool, words ...string) string {
	quoted := make([]string, len(words))
	for i, s := range words {
		plain, clean := s != "", true
		for _, r := range s {
			letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
			plain = plain && (letter || strings.ContainsRune("-_./:=,@%+", r))
			clean = clean && shown(r)
		}
		switch {
		case plain:
			quoted[i] = s
		case clean:
			quoted[i] = "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		default:
			// Remove only the pair of quotes from Quote: the text may end in a quote.
			text := strconv.QuoteToASCII(s)
			quoted[i] = "$'" + strings.ReplaceAll(text[1:len(text)-1], "'", `\'`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
