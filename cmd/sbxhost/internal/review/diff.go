package review

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"strings"

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
	for _, c := range left {
		a.Say("not in the diff: " + c.Line() + sizeOf(&c))
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
		line, err := patch.ReadString('\n')
		style := ""
		switch {
		case strings.HasPrefix(line, "diff "):
			inHunk, style = false, "1"
		case strings.HasPrefix(line, "@@ "):
			inHunk, style = true, "36"
		case !inHunk:
			style = "1"
		case strings.HasPrefix(line, "-"):
			style = "31"
		case strings.HasPrefix(line, "+"):
			style = "32"
		}
		if !color || line == "" {
			style = ""
		}
		if style != "" {
			w.WriteString("\x1b[" + style + "m")
		}
		text := strings.TrimSuffix(line, "\n")
		cli.Escape(w, text, color)
		if style != "" {
			w.WriteString("\x1b[m")
		}
		_, failed := w.WriteString(line[len(text):])
		if err == io.EOF {
			return w.Flush()
		} else if err = errors.Join(err, failed); err != nil {
			return err
		}
	}
}
