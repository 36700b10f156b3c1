package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/policy"
)

// errNoTerminal says that there is nobody to ask.
var errNoTerminal = errors.New("there is no terminal to ask on")

// errNoAnswer says that the question went unanswered: the terminal was closed,
// or a signal came.
var errNoAnswer = errors.New("the question was not answered")

// terminalOf opens the terminal that belongs to this process, and to no
// redirection: what a command reads from standard input must not answer. Where
// none of the standard streams is a terminal, nobody watches - a program has
// started us, and the terminal is its own.
func (a *app) terminalOf() (*os.File, error) {
	if !isTerminal(a.stdin) && !isTerminal(a.stdout) && !isTerminal(a.stderr) {
		return nil, errNoTerminal
	}
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, errNoTerminal
	}
	tty := os.NewFile(uintptr(fd), "/dev/tty")
	if group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil || group != unix.Getpgrp() {
		tty.Close()
		return nil, fmt.Errorf("%w: sbxhost is in the background", errNoTerminal)
	}
	return tty, nil
}

// ask shows text on the terminal and gives the line that is typed, in small
// letters. What was typed before the question is thrown away: it was no answer.
func (a *app) ask(ctx context.Context, text string) (string, error) {
	tty, err := a.terminalOf()
	if err != nil {
		return "", err
	}
	defer tty.Close()
	discardInput(int(tty.Fd()))
	if _, err := tty.WriteString(text); err != nil {
		return "", fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	line, err := readAnswer(ctx, tty)
	if err != nil {
		tty.WriteString("\n")
		return "", err
	}
	return strings.ToLower(strings.TrimSpace(line)), nil
}

// maxAnswer is more than any answer has; whatever is longer is garbage.
const maxAnswer = 256

// readAnswer reads a line, until ctx ends.
func readAnswer(ctx context.Context, tty *os.File) (string, error) {
	wakened, wake, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer wakened.Close()
	stop := context.AfterFunc(ctx, func() { wake.Close() })
	defer func() {
		if stop() {
			wake.Close()
		}
	}()
	fd, done := int(tty.Fd()), int(wakened.Fd())
	var line []byte
	buf := make([]byte, maxAnswer)
	for {
		// Not poll, which knows no terminals on macOS.
		var ready unix.FdSet
		ready.Set(fd)
		ready.Set(done)
		if _, err := unix.Select(max(fd, done)+1, &ready, nil, nil, nil); err == unix.EINTR {
			continue
		} else if err != nil {
			return "", fmt.Errorf("%w: %w", errNoAnswer, err)
		}
		if ready.IsSet(done) || ctx.Err() != nil {
			return "", fmt.Errorf("%w: %w", errNoAnswer, context.Cause(ctx))
		}
		n, err := unix.Read(fd, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return "", fmt.Errorf("%w: %w", errNoAnswer, err)
		case n == 0:
			return "", fmt.Errorf("%w: the terminal's input has ended", errNoAnswer)
		}
		line = append(line, buf[:n]...)
		if i := strings.IndexByte(string(line), '\n'); i >= 0 {
			return string(line[:i]), nil
		}
		if len(line) > maxAnswer {
			return "", fmt.Errorf("%w: it was no answer", errNoAnswer)
		}
	}
}

// approve is the host's Approver: a person at the terminal.
func (a *app) approve(ctx context.Context, r host.ApprovalRequest) (policy.Approval, error) {
	answer, err := a.ask(ctx, approvalQuestion(&r))
	if err != nil {
		return policy.Refused, err
	}
	return approvalAnswer(answer, r.Remembers), nil
}

// approvalAnswer reads an answer. Whatever is none is a no.
func approvalAnswer(answer string, remembers bool) policy.Approval {
	switch answer {
	case "o", "once", "y", "yes":
		return policy.ApprovedOnce
	case "s", "session":
		if remembers {
			return policy.ApprovedSession
		}
	case "a", "always":
		if remembers {
			return policy.ApprovedAlways
		}
	}
	return policy.Refused
}

// What a question shows of a command before it shortens it.
const (
	maxQuestionText  = 2000 // runes of a command line
	maxQuestionLines = 40   // of a script
)

// approvalQuestion is what a person is asked. Everything in it that a command
// or a file name has chosen is escaped.
func approvalQuestion(r *host.ApprovalRequest) string {
	var b strings.Builder
	b.WriteString("\nsbxhost: this command would run WITHOUT a sandbox:\n\n")
	rows := [][]string{}
	if r.Script == "" {
		rows = append(rows, []string{"  command", shorten(quoteAll(r.Args))})
	} else {
		rows = append(rows, []string{"  script", fmt.Sprintf("%s, shown below", plural(strings.Count(r.Script, "\n")+1, "line"))})
		if len(r.Args) > 0 {
			rows = append(rows, []string{"  arguments", shorten(quoteAll(r.Args))})
		}
	}
	rows = append(rows, []string{"  directory", quote(r.Dir)})
	if r.Workspace != r.Dir {
		rows = append(rows, []string{"  workspace", quote(r.Workspace)})
	}
	rows = append(rows, []string{"  sandbox", quote(r.Sandbox)}, []string{"  because", oneLine(r.Decision.Reason)})
	if r.Decision.Hint != "" {
		rows = append(rows, []string{"  fix", oneLine(r.Decision.Hint)})
	}
	rows = append(rows, []string{"  it has", oneLine(strings.Join(r.Decision.Exposed, "; "))})
	if len(r.Decision.Sensitive) > 0 {
		rows = append(rows, []string{"  secrets", shorten(quoteAll(r.Decision.Sensitive)) + " within its reach"})
	}
	if len(r.Env) > 0 {
		rows = append(rows, []string{"  sets", shorten(quoteAll(r.Env))})
	}
	for _, w := range r.Warnings {
		rows = append(rows, []string{"  note", oneLine(w)})
	}
	table(&b, "", rows)
	if r.Script != "" {
		b.WriteString("\n" + scriptText(r.Script))
	}
	b.WriteString("\nRun it? [o]nce")
	if r.Remembers {
		fmt.Fprintf(&b, ", for the [s]ession (%s), [a]lways", shortTime(r.SessionTTL))
	}
	b.WriteString(", [N]o: ")
	return b.String()
}

// oneLine keeps text from looking like more of the question than it is.
func oneLine(s string) string { return printable(strings.ReplaceAll(s, "\n", " ")) }

// shorten leaves out the middle of what is too long to be read, and says so.
func shorten(s string) string {
	n := utf8.RuneCountInString(s)
	if n <= maxQuestionText {
		return s
	}
	runes := []rune(s)
	half := maxQuestionText / 2
	return fmt.Sprintf("%s [... %d CHARACTERS ARE LEFT OUT HERE ...] %s", string(runes[:half]), n-2*half, string(runes[n-half:]))
}

// scriptText shows a script line by line.
func scriptText(script string) string {
	lines := strings.Split(strings.TrimSuffix(script, "\n"), "\n")
	var b strings.Builder
	for i, line := range lines {
		if left := len(lines) - maxQuestionLines; left > 1 && i >= maxQuestionLines/2 && i < len(lines)-maxQuestionLines/2 {
			if i == maxQuestionLines/2 {
				fmt.Fprintf(&b, "  [... %d LINES ARE LEFT OUT HERE ...]\n", left)
			}
			continue
		}
		b.WriteString("  | " + shorten(printable(line)) + "\n")
	}
	return b.String()
}

// shortTime is a duration as people write it: "6h", not "6h0m0s".
func shortTime(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
