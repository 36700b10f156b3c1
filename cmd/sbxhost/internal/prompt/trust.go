package prompt

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/host"
)

// Trust asks whether to trust a configuration in the workspace.
func Trust(ctx context.Context, a *cli.App, u *inforce.UntrustedFile) (bool, error) {
	question, whole := trustQuestion(u.Path, u.Previous, string(u.Text), u.Changed)
	if !whole {
		return false, nil
	}
	answer, err := ask(ctx, a, func(host.TerminalSize) string { return question })
	if errors.Is(err, errNoTerminal) {
		return false, nil
	}
	return answer == "y" || answer == "yes", err
}

// maxTrustLines is how much of a configuration to show with the question, in lines of a terminal. A
// longer one should be read in an editor: nobody has read text that scrolled away.
const maxTrustLines = 300

// trustQuestion returns the question. It is not complete if the text is too long for a terminal.
func trustQuestion(path, before, after string, changed bool) (text string, whole bool) {
	change := Diff(before, after)
	if rows(change, 80) > maxTrustLines {
		return "", false
	}
	var b strings.Builder
	if changed {
		fmt.Fprintf(&b, "\nsbxhost: %s has changed since you trusted it:\n\n", pathInOrder(path))
	} else {
		fmt.Fprintf(&b, "\nsbxhost: %s was found in the workspace, and you have not trusted it. It says:\n\n", pathInOrder(path))
	}
	b.WriteString(change)
	b.WriteString("\nIt decides what commands may see and do. Trust it? [y]es, [N]o: ")
	return b.String(), true
}

// Diff returns the differences between before and after, as diff -u does, safe for a terminal. It
// returns "" if there are none.
func Diff(before, after string) string {
	text := string(diff.Diff("", []byte(before), "", []byte(after)))
	for range 3 { // the names, which the question has shown
		_, text, _ = strings.Cut(text, "\n")
	}
	return lineInOrder(cli.Printable(text))
}
