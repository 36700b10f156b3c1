//go:build linux

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// questionConfig has an engine that works on another platform alone.
const questionConfig = `default_sandbox = "ask"

sandbox "ask" {
  engine   = "seatbelt"
  fallback = "approve"
}

sandbox "fast" {
  engine = "bwrap"
}
`

// TestQuestions drives the questions of the built program on real terminals.
func TestQuestions(t *testing.T) {
	need(t, "bwrap", "bash")
	top, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	build(t, top, bin, "cmd/sbxhost")
	t.Cleanup(func() {
		until(t, "all processes to be gone", func() bool { return len(running(bin)) == 0 },
			func() string { return fmt.Sprint(running(bin)) })
	})
	for name, test := range map[string]func(*testing.T, *place){
		"answers":    testAnswers,
		"scopes":     testScopesOnTerminal,
		"escaped":    testQuestionEscaped,
		"typeahead":  testTypeahead,
		"stdin":      testStdinIsNoAnswer,
		"hangup":     testHangupIsNo,
		"background": testBackground,
		"trust":      testTrustQuestion,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, bin)
			if err := os.WriteFile(filepath.Join(p.home, "sandbox.hcl"), []byte(questionConfig), 0o644); err != nil {
				t.Fatal(err)
			}
			test(t, p)
		})
	}
}

const question = "Run it? [o]nce, for the [s]ession (6h), [a]lways, [N]o: "

func (p *place) made() bool {
	_, err := os.Stat(filepath.Join(p.project, "made"))
	return err == nil
}

// shell runs shell text on a terminal.
func (p *place) shell(t *testing.T, text string, env ...string) *line {
	t.Helper()
	cmd := exec.Command("bash", "-c", text)
	cmd.Dir, cmd.Env = p.project, append(p.env(), env...)
	return connect(t, cmd)
}

// Whatever is no plain yes is a no.
func testAnswers(t *testing.T, p *place) {
	for _, tt := range []struct {
		typed  string
		status int
	}{
		{"o\r", 0}, {"once\r", 0}, {"Y\r", 0},
		{"n\r", 125}, {"\r", 125}, {"yes please\r", 125}, {"\x1b[A\r", 125}, {"\x04", 125},
		{strings.Repeat("y", 1000) + "\r", 125}, {"\x03", 130}, {"\x1c", 131},
	} {
		os.Remove(filepath.Join(p.project, "made"))
		l := p.dial(t, "exec", "--", "touch", "made")
		l.sees(question)
		if p.made() {
			t.Fatal("it ran before the answer")
		}
		l.types(tt.typed)
		if status := l.ends(); status != tt.status || p.made() != (tt.status == 0) {
			t.Errorf("%q: status %d, made %v: %s", tt.typed, status, p.made(), l.text())
		}
	}
}

// What is approved for longer is not asked again, and what is not is.
func testScopesOnTerminal(t *testing.T, p *place) {
	for _, scope := range []string{"session", "always"} {
		// One login session for both runs, as in a terminal of a person.
		l := p.shell(t, fmt.Sprintf("for i in 1 2; do sbxhost exec -- echo %s ran; done", scope))
		l.sees(question)
		l.types(scope[:1] + "\r")
		if l.ends() != 0 || strings.Count(l.text(), "\n"+scope+" ran\r\n") != 2 || strings.Count(l.text(), question) != 1 {
			t.Errorf("%s: %s", scope, l.text())
		}
	}
	// That terminal is gone: another one is another session, and always is always.
	l := p.shell(t, "sbxhost exec -- echo always ran && sbxhost exec -- echo session ran")
	l.sees("always ran")
	l.sees(question)
	l.types("n\r")
	if status := l.ends(); status != 125 || strings.Contains(l.text(), "\nsession ran\r") || !strings.Contains(l.text(), "was not approved") {
		t.Errorf("status %d: %s", status, l.text())
	}
}

// The question shows what would run, and cannot be made to show something else.
func testQuestionEscaped(t *testing.T, p *place) {
	if err := os.WriteFile(filepath.Join(p.project, ".env"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	l := p.dial(t, "exec", "-env", "SECRET=hunter2", "--", "touch", "made", "\x1b[2J\x1b[H", "\u202ercs", "a\nRun it? no", "\u009b2J", strings.Repeat("x", 9000)+"tail")
	l.sees(question)
	l.types("\r")
	l.ends()
	text := l.text()
	for _, want := range []string{
		`touch made $'\x1b[2J\x1b[H' $'\u202ercs' $'a\nRun it? no' $'\u009b2J' xxx`, "CHARACTERS ARE LEFT OUT HERE", "tail\r\n",
		"would run WITHOUT a sandbox", `because    engine "seatbelt" does not work here`, "directory  " + p.project, "secrets    " + p.project + "/.env within its reach",
		"sets       SECRET", "every file of yours", "the network, which the definition denies",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the question lacks %q:\n%s", want, text)
		}
	}
	if strings.ContainsAny(strings.ReplaceAll(strings.ReplaceAll(text, "\x1b[1m", ""), "\x1b[0m", ""), "\x1b\u202e\u009b") || strings.Contains(text, "hunter2") {
		t.Errorf("something reached the terminal:\n%q", text)
	}
	l = p.dial(t, "exec", "-c", "echo one\n\x1b[31mtwo\n"+strings.Repeat("echo filler\n", 100)+"echo last")
	l.sees(question)
	l.types("n\r")
	l.ends()
	for _, want := range []string{"103 lines, shown below", "  | echo one\r\n  | \ufffd[31mtwo\r\n", "LINES ARE LEFT OUT HERE", "  | echo last\r\n"} {
		if !strings.Contains(l.text(), want) {
			t.Errorf("the question lacks %q:\n%s", want, l.text())
		}
	}
}

// What was typed before the question does not answer it.
func testTypeahead(t *testing.T, p *place) {
	l := p.shell(t, "echo ready; read line; exec sbxhost exec -- touch made")
	l.sees("ready")
	l.types("go\ryes\r")
	l.sees(question)
	l.types("\r")
	if status := l.ends(); status != 125 || p.made() {
		t.Errorf("status %d: %s", status, l.text())
	}
}

// Nor does what the command is to read.
func testStdinIsNoAnswer(t *testing.T, p *place) {
	l := p.shell(t, "echo yes | sbxhost exec -- sh -c 'cat >made'")
	l.sees(question)
	l.types("o\r")
	if status := l.ends(); status != 0 {
		t.Errorf("status %d: %s", status, l.text())
	}
	if text, err := os.ReadFile(filepath.Join(p.project, "made")); err != nil || string(text) != "yes\n" {
		t.Errorf("%q, %v", text, err)
	}
	// Where nothing is on the terminal, nobody watches.
	os.Remove(filepath.Join(p.project, "made"))
	l = p.shell(t, "sbxhost exec -- touch made </dev/null >out 2>&1; echo status $?; cat out")
	l.sees("status 125")
	l.sees("there is no terminal to ask on")
	if l.ends(); p.made() {
		t.Error("it ran")
	}
}

// A terminal that is closed has said no.
func testHangupIsNo(t *testing.T, p *place) {
	l := p.dial(t, "exec", "--", "touch", "made")
	l.sees(question)
	l.master.Close()
	if status := l.ends(); status == 0 || p.made() {
		t.Errorf("status %d, made %v", status, p.made())
	}
	// Where its end is all that there is to see.
	l = p.shell(t, "trap '' HUP; exec sbxhost exec -- touch made")
	l.sees(question)
	l.master.Close()
	if status := l.ends(); status != 125 || p.made() {
		t.Errorf("without SIGHUP: status %d, made %v", status, p.made())
	}
}

// A job in the background must not be stopped by its own question.
func testBackground(t *testing.T, p *place) {
	l := p.shell(t, "set -m; sbxhost exec -- touch made & wait $!; echo status $?")
	l.sees("status 125")
	l.sees("sbxhost is in the background")
	if l.ends(); p.made() {
		t.Error("it ran")
	}
}

func testTrustQuestion(t *testing.T, p *place) {
	path := filepath.Join(p.project, "config.hcl")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const asks = "Trust it? [y]es, [N]o: "
	run := func() *line { return p.shell(t, "sbxhost exec -- touch made", "SBXHOST_CONFIG=") }
	write("sandbox \"fast\" {\n  engine = \"bwrap\"\n}\n")
	l := run()
	l.sees(asks)
	l.types("n\r")
	if status := l.ends(); status != 125 || p.made() || !strings.Contains(l.text(), "+  engine = \"bwrap\"\r\n") {
		t.Errorf("status %d: %s", status, l.text())
	}
	l = run()
	l.sees(asks)
	l.types("y\r")
	if status := l.ends(); status != 0 || !p.made() {
		t.Errorf("status %d: %s", status, l.text())
	}
	l = run()
	if status := l.ends(); status != 0 || strings.Contains(l.text(), asks) {
		t.Errorf("status %d: %s", status, l.text())
	}
	write("sandbox \"fast\" {\n  engine = \"noop\"\n}\n")
	os.Remove(filepath.Join(p.project, "made"))
	l = run()
	l.sees(asks)
	l.types("\x03")
	if l.ends(); p.made() || !strings.Contains(l.text(), "has changed since you trusted it") ||
		!strings.Contains(l.text(), "-  engine = \"bwrap\"\r\n+  engine = \"noop\"\r\n") {
		t.Errorf("%s", l.text())
	}
}
