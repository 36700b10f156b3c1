package review

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
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
		a.Say("not in the diff: " + c.Line(reviewPath(set.Shown(c))) + sizeOf(c))
	}
	printConflicts(a, set, set.Changes, only)
	return nil
}

// writeDiff writes the unchanged patch, which git can apply. A terminal gets it by page.
func writeDiff(ctx context.Context, a *cli.App, r *host.Review, set *host.ReviewSet, only []string) ([]host.ReviewChange, error) {
	if !cli.IsTerminal(a.Stdout) {
		return r.Diff(ctx, a.Stdout, set, only)
	}
	from, to := io.Pipe()
	shown := make(chan error, 1)
	go func() {
		patch := bufio.NewReader(from)
		shown <- page(ctx, a, r, patch)
		_, _ = io.Copy(io.Discard, patch) // a reader that stops early need not see git fail
	}()
	left, err := r.Diff(ctx, to, set, only)
	to.Close()
	return left, errors.Join(err, <-shown)
}

// page shows a patch on the terminal, by the user's pager if no command can influence that.
func page(ctx context.Context, a *cli.App, r *host.Review, patch *bufio.Reader) error {
	if _, err := patch.Peek(1); err != nil {
		return nil // no differences
	}
	pager, err := pagerOf(ctx, a, r)
	if err != nil {
		a.Say("without a pager: " + err.Error())
	}
	if pager == nil {
		return escape(a.Stdout, patch, a.Color(a.Stdout))
	}
	// The interrupt is for the pager, where it can stop a search in the text.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	pager.Stdout, pager.Stderr = a.Stdout, a.Stderr
	in, err := pager.StdinPipe()
	if err == nil {
		err = pager.Start()
	}
	if err != nil {
		return fmt.Errorf("pager: %w", err)
	}
	_ = escape(in, patch, a.Color(a.Stdout)) // it may have ended
	in.Close()
	_ = pager.Wait() // it reports its own errors
	return nil
}

// pagerOf returns the user's pager, or nil. Only GIT_PAGER and PAGER name it, and no file does.
func pagerOf(ctx context.Context, a *cli.App, r *host.Review) (*exec.Cmd, error) {
	line, name := "less", ""
	for _, name = range []string{"PAGER", "GIT_PAGER"} { // the last one counts
		if value, ok := a.LookupEnv(name); ok {
			line = value
		}
	}
	words := strings.Fields(line)
	if len(words) == 0 || words[0] == "cat" || a.Getenv("TERM") == "dumb" {
		return nil, nil
	}
	if strings.ContainsAny(line, "|&;<>()$`\\\"'*?[]{}#~!\n") {
		return nil, fmt.Errorf("%s is a shell's text: name a program and its arguments", cli.Quote(line))
	}
	// Pass no variable that loads a library, filters the text (LESSOPEN) or names an editor. Pass
	// no home: less finds a file there that sets LESSOPEN, and the file can be a link to one that
	// commands write.
	environ := []string{"LESS=FRX", "LV=-c"}
	for _, entry := range a.Environ {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "LC_") || slices.Contains([]string{"TERM", "TERMINFO", "COLORTERM", "LANG", "LESS", "LESSCHARSET", "LV"}, name) {
			environ = append(environ, entry)
		}
	}
	return r.Program(ctx, environ, words[0], words[1:]...)
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
