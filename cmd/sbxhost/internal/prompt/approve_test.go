package prompt

import (
	"strings"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/policy"
)

func TestApprovalAnswer(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]policy.Approval{
		"o": policy.ApprovedOnce, "once": policy.ApprovedOnce, "y": policy.ApprovedOnce, "yes": policy.ApprovedOnce,
		"s": policy.ApprovedSession, "session": policy.ApprovedSession, "a": policy.ApprovedAlways, "always": policy.ApprovedAlways,
		"": policy.Refused, "n": policy.Refused, "no": policy.Refused, "sure": policy.Refused, "y y": policy.Refused, "\x1b[a": policy.Refused,
	} {
		if got := approvalAnswer(answer, true); got != want {
			t.Errorf("%q is %v", answer, got)
		}
	}
	for _, answer := range []string{"s", "a", "always"} {
		if got := approvalAnswer(answer, false); got != policy.Refused {
			t.Errorf("%q, where nothing is remembered, is %v", answer, got)
		}
	}
}

// Whatever a command holds, the question is one question, and printable.
func FuzzQuestion(f *testing.F) {
	f.Add("touch", "a\nRun it? [o]nce: o\n", "", "/work")
	f.Add("x", "\x1b[2J\u202e\x00\xff", "echo\r\x1b]0;t\x07\n", "/w\n\x1b")
	f.Add("x", strings.Repeat("y", 3000), strings.Repeat("\t\n", 100), "/w")
	f.Fuzz(func(t *testing.T, name, arg, script, dir string) {
		text, cut := approvalQuestion(&host.ApprovalRequest{Args: []string{name, arg}, Script: script, Dir: dir, Sandbox: name, Env: []string{arg}, Remembers: true,
			SessionTTL: time.Hour, Decision: policy.Decision{Reason: arg, Hint: dir, Exposure: []string{name}, Sensitive: []string{dir}}}, host.TerminalSize{Rows: 24, Cols: 80})
		if cut != strings.Contains(text, "[v]iew") && len(name)+len(arg)+len(script)+len(dir) < minQuestionText {
			t.Errorf("what is left out is not told of: %q", text)
		}
		if cli.Printable(text) != text || strings.ContainsAny(text, "\t") && !strings.ContainsAny(name+arg+script+dir, "\t") {
			t.Errorf("%q", text)
		}
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "Run it?") && !strings.HasSuffix(text, line) {
				t.Errorf("a question before the question: %q", text)
			}
		}
	})
}

// No text is so long, and no script has so many lines, that the screen shows its
// end alone.
func TestQuestionFitsTheScreen(t *testing.T) {
	t.Parallel()
	r := host.ApprovalRequest{Args: []string{"sh"}, Dir: "/work", Workspace: "/work", Sandbox: "fast", Remembers: true, SessionTTL: time.Hour,
		Decision: policy.Decision{Reason: "the caller asked to skip the sandbox", Exposure: []string{"every file of yours, to read and to write"}}}
	small := r
	small.Args = []string{"make", "test"}
	commands := []host.ApprovalRequest{small}
	for _, long := range []string{strings.Repeat("x", 5000), strings.Repeat(" ", 5000), strings.Repeat("\u4e2d", 5000), strings.Repeat("\t", 5000), strings.Repeat("\n", 5000)} {
		inArgs, inScript, inDir := r, r, r
		inArgs.Args = []string{"sh", "-c", "FIRST" + long + "LAST"}
		inScript.Script = "FIRST" + long + "\n" + strings.Repeat("# "+long+"\n", 50) + "LAST"
		inDir.Dir = "/FIRST" + long + "LAST"
		commands = append(commands, inArgs, inScript, inDir)
	}
	for i, r := range commands {
		for _, size := range []host.TerminalSize{{Rows: 24, Cols: 80}, {Rows: 50, Cols: 200}, {Rows: 22, Cols: 70}} {
			text, cut := approvalQuestion(&r, size)
			if rows := screenRows(text, int(size.Cols)); rows > int(size.Rows) {
				t.Errorf("command %d needs %d rows of %d:\n%s", i, rows, size.Rows, text)
			}
			if cut != (i > 0) || strings.Contains(text, "LEFT OUT") != cut || strings.Contains(text, "[v]iew all of it") != cut || i > 0 && (!strings.Contains(text, "FIRST") || !strings.Contains(text, "LAST")) {
				t.Errorf("command %d: cut is %v:\n%s", i, cut, text)
			}
		}
		// Where nothing is known of the screen, there is a bound all the same.
		if text, _ := approvalQuestion(&r, host.TerminalSize{}); len([]rune(text)) > (maxQuestionLines+5)*(maxQuestionText+100) {
			t.Errorf("command %d: %d characters", i, len([]rune(text)))
		}
	}
}

// screenRows lets a text run over the right margin as a terminal does.
func screenRows(text string, columns int) int {
	rows, column := 1, 0
	for _, r := range text {
		width := 1
		if r == '\u4e2d' {
			width = 2
		}
		switch {
		case r == '\n':
			rows, column = rows+1, 0
			continue
		case column+width > columns:
			rows, column = rows+1, 0
		}
		column += width
	}
	return rows
}

// Letters that are written from right to left would have a terminal show what is
// between them in the other order.
func TestQuestionIsInOrder(t *testing.T) {
	t.Parallel()
	for _, r := range []host.ApprovalRequest{
		{Args: []string{"cp", "\u05d0", "1", "\U0001e900"}, Dir: "/w", Workspace: "/w"},
		{Script: "cp '\u05d0' 1 \U0001e900\n", Dir: "/w/\u0634", Workspace: "/w/\u0634\u0634"},
	} {
		text, _ := approvalQuestion(&r, host.TerminalSize{})
		if strings.ContainsAny(text, "\u05d0\u0634\U0001e900") || !strings.Contains(text, `\u05d0`) || !strings.Contains(text, `\U0001e900`) {
			t.Errorf("%+v: %s", r, text)
		}
	}
	r := host.ApprovalRequest{Args: []string{"cp", "é", "文"}, Dir: "/w", Workspace: "/w"}
	if text, _ := approvalQuestion(&r, host.TerminalSize{}); !strings.Contains(text, "cp 'é' '文'") {
		t.Error(text)
	}
}
