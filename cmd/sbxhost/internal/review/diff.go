package review

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/host"
)

// showDiff makes git show the changes, and reports the rest.
func showDiff(ctx context.Context, a *cli.App, r *host.Review, set *host.ReviewSet, only []string) error {
	left, err := writeDiff(ctx, a, r, set, only)
	if errors.Is(err, host.ErrNoProgram) {
		a.Say("no diff of contents: " + err.Error())
		return printReview(a, set, only)
	} else if err != nil {
		return err
	}
	for i := range left {
		c := &left[i]
		a.Say("not in the diff: " + c.Line() + sizeOf(c))
	}
	printConflicts(a, set.Changes, only)
	return nil
}

// writeDiff writes the patch: a file gets it unchanged, and git can apply that.
func writeDiff(ctx context.Context, a *cli.App, r *host.Review, set *host.ReviewSet, only []string) ([]host.ReviewChange, error) {
	if !cli.IsTerminal(a.Stdout) {
		return r.Diff(ctx, a.Stdout, set, only)
	}
	from, to := io.Pipe()
	shown := make(chan error, 1)
	go func() {
		err := escape(a.Stdout, bufio.NewReader(from), a.Color(a.Stdout))
		from.CloseWithError(err) // git then ends
		shown <- err
	}()
	left, err := r.Diff(ctx, to, set, only)
	to.Close()
	return left, cmp.Or(<-shown, err)
}

// escape shows a patch on a terminal. The content of files cannot act on the terminal or hide a
// part of itself. escape adds the colors itself: a file could imitate those of git.
func escape(to io.Writer, patch *bufio.Reader, color bool) error {
	w := bufio.NewWriter(to)
	inHunk := false
	for {
		begin, err := patch.Peek(len("diff "))
		if len(begin) == 0 {
			if err == io.EOF {
				err = nil
			}
			return errors.Join(err, w.Flush())
		}
		style := ""
		switch {
		case bytes.Equal(begin, []byte("diff ")):
			inHunk, style = false, "1"
		case bytes.HasPrefix(begin, []byte("@@ ")):
			inHunk, style = true, "36"
		case !inHunk:
			style = "1"
		case begin[0] == '-':
			style = "31"
		case begin[0] == '+':
			style = "32"
		}
		if !color {
			style = ""
		}
		if style != "" {
			w.WriteString("\x1b[" + style + "m")
		}
		err = escapeLine(w, patch, color)
		if style != "" {
			w.WriteString("\x1b[m")
		}
		if err == nil {
			err = w.WriteByte('\n')
		}
		if err != nil && err != io.EOF {
			return err
		}
	}
}

// escapeLine shows the rest of a line, without its end.
func escapeLine(w *bufio.Writer, patch *bufio.Reader, color bool) error {
	for {
		r, size, err := patch.ReadRune()
		if err != nil || r == '\n' {
			return err
		}
		as := string(r)
		switch {
		case r == utf8.RuneError && size == 1:
			_ = patch.UnreadRune() // the rune was just read
			b, _ := patch.ReadByte()
			as = fmt.Sprintf(`\x%02x`, b)
		case r != '\t' && cli.Printable(as) != as:
			as = strings.Trim(strconv.QuoteRuneToASCII(r), "'")
		default:
			if _, err = w.WriteString(as); err != nil {
				return err
			}
			continue
		}
		if color {
			as = "\x1b[7m" + as + "\x1b[27m"
		}
		if _, err = w.WriteString(as); err != nil {
			return err
		}
	}
}
