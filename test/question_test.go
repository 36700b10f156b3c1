//go:build linux

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// questionConfig has an engine that works on another platform alone.
const questionConfig = `default_sandbox = "ask"

sandbox "ask" {
  engine   = "seatbelt"
  fallback = "approve"
}

sandbox "fast" {
  engine = "native"
}
`

// TestProgramAsks drives the questions of the built program on real terminals.
func TestProgramAsks(t *testing.T) {
	need(t, "bwrap", "bash")
	bin := t.TempDir()
	build(t, bin, "cmd/sbxhost")
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
		"raw":        testRawTerminal,
		"at once":    testQuestionsAtOnce,
		"suspended":  testQuestionSuspended,
		"pasted":     testPastedHint,
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

const (
	question    = "Run it? [o]nce, for the [s]ession (6h), [a]lways, [N]o: "
	questionCut = "Run it? [o]nce, for the [s]ession (6h), [a]lways, [v]iew all of it, [N]o: "
)

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
		{strings.Repeat("y", 1000) + "\r", 125}, {"\x03", -int(syscall.SIGINT)}, {"\x1c", 131},
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
		// Until sbxhost has the terminal, that ends lines as well as the command's own does.
		ran := func() int {
			return strings.Count(strings.ReplaceAll(l.text(), "\r\r\n", "\r\n"), "\n"+scope+" ran\r\n")
		}
		until(t, "both runs", func() bool { return ran() == 2 }, l.text)
		if l.ends() != 0 || strings.Count(l.text(), question) != 1 {
			t.Errorf("%s: %s", scope, l.text())
		}
	}
	// That terminal is gone: another one is another session, and always is always.
	l := p.shell(t, "sbxhost exec -- echo always ran && sbxhost exec -- echo session ran")
	l.sees("always ran")
	l.sees(question)
	l.types("n\r")
	l.sees("was not approved")
	if status := l.ends(); status != 125 || strings.Contains(l.text(), "\nsession ran\r") {
		t.Errorf("status %d: %s", status, l.text())
	}
}

// The question shows what would run, and cannot be made to show something else.
func testQuestionEscaped(t *testing.T, p *place) {
	if err := os.WriteFile(filepath.Join(p.project, ".env"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	l := p.dial(t, "exec", "-env", "SECRET=hunter2", "--", "touch", "made", "\x1b[2J\x1b[H", "\u202ercs", "a\nRun it? no", "\u009b2J", strings.Repeat("x", 9000)+"tail")
	l.sees(questionCut)
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
	l = p.dial(t, "exec", "-c", "echo one\n\x1b[31mtwo\n"+strings.Repeat("echo filler\n", 50)+"echo hidden\n"+strings.Repeat("echo filler\n", 50)+"echo last")
	l.sees(questionCut)
	if strings.Contains(l.text(), "hidden") {
		t.Errorf("the screen has no room for it:\n%s", l.text())
	}
	l.types("v\r")
	until(t, "the whole script and the question", func() bool {
		text := l.text()
		return strings.Contains(text, "  | echo hidden\r\n") && strings.Count(text, questionCut) == 2
	}, l.text)
	l.types("n\r")
	l.ends()
	for _, want := range []string{"104 lines, shown below", "  | echo one\r\n  | \ufffd[31mtwo\r\n", "LINES ARE LEFT OUT HERE", "  | echo last\r\n"} {
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
	l.sees("there is no terminal")
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

// A program has left the terminal raw: Enter is a carriage return then, and ^C a
// character.
func testRawTerminal(t *testing.T, p *place) {
	for typed, runs := range map[string]bool{"o\r": true, "n\r": false, "\x03": false, "o\x03": false, "\x04": false, "\x1a": false, "\x1c": false} {
		os.Remove(filepath.Join(p.project, "made"))
		l := p.shell(t, "stty raw -echo; sbxhost exec -- touch made; echo status $?")
		l.sees(question)
		l.types(typed)
		l.sees("status")
		if l.ends(); p.made() != runs || strings.Contains(strings.ReplaceAll(l.text()[:strings.Index(l.text(), question)], "\r\n", ""), "\n") {
			t.Errorf("%q: made %v: %q", typed, p.made(), l.text())
		}
	}
}

// Of several commands at once on one terminal, as of a parallel build, one asks
// after the other: an answer is to the question that was last seen.
func testQuestionsAtOnce(t *testing.T, p *place) {
	const count = 6
	l := p.shell(t, fmt.Sprintf("for i in $(seq %d); do sbxhost exec -- touch made-$i & done; wait; echo all done", count))
	for n := 1; n <= count; n++ {
		until(t, fmt.Sprint("question ", n), func() bool { return strings.Count(l.text(), question) >= n }, l.text)
		text := l.text()
		if strings.Count(text, question) != n {
			t.Fatalf("there is more than question %d:\n%s", n, text)
		}
		asked := text[strings.LastIndex(text, "touch made-"):]
		asked = asked[len("touch ") : len("touch made-")+1]
		if n%2 == 0 {
			l.types("n\r")
			continue
		}
		l.types("o\r")
		until(t, asked, func() bool { _, err := os.Stat(filepath.Join(p.project, asked)); return err == nil }, l.text)
	}
	l.sees("all done")
	l.ends()
	if made, _ := filepath.Glob(filepath.Join(p.project, "made-*")); len(made) != count/2 {
		t.Errorf("made %q", made)
	}
	// One that has to wait can be given up.
	l = p.shell(t, "trap : INT; echo made made | xargs -n1 -P2 sbxhost exec -- touch; until false; do sleep 0.02; done")
	l.sees(question)
	here := func() (found []string) {
		for _, dir := range running(p.bin) {
			cwd, err := os.Readlink(filepath.Join(dir, "cwd"))
			line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			if err == nil && cwd == p.project && strings.Contains(string(line), "\x00touch\x00") { // no engine
				found = append(found, dir)
			}
		}
		return found
	}
	until(t, "both of them", func() bool { return len(here()) == 2 }, l.text)
	l.types("\x03")
	until(t, "their ends", func() bool { return len(here()) == 0 }, l.text)
	if p.made() {
		t.Errorf("it ran: %s", l.text())
	}
}

// A question that was put aside is shown again, and keeps no other from being
// asked.
func testQuestionSuspended(t *testing.T, p *place) {
	s := p.screen(t)
	const asks = `^Run it\?.*\[N\]o:`
	s.run("sbxhost exec -- touch made")
	s.sees(asks)
	s.keys("C-z")
	s.sees(`Stopped +sbxhost(.*\n)+OUT>$`)
	s.clear()
	s.run("sbxhost exec -- touch other")
	s.sees(`command +touch other\n(.*\n)+Run it\?.*\[N\]o:`)
	s.run("n")
	s.sees(`was not approved(.*\n)+OUT>$`)
	s.clear()
	s.run("bg")
	s.run("fg")
	s.sees(`command +touch made\n(.*\n)+Run it\?.*\[N\]o:`)
	s.run("o")
	s.sees(`WITHOUT(.*\n)+OUT>$`)
	if _, err := os.Stat(filepath.Join(p.project, "other")); err == nil || !p.made() {
		t.Errorf("other: %v, made %v", err, p.made())
	}
}

// The message of a refusal can be pasted, whatever the command is.
func testPastedHint(t *testing.T, p *place) {
	file := filepath.Join(p.home, "script file.sh")
	if err := os.WriteFile(file, []byte("echo from a file \"$1\" >made\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	odd := []string{"", "a b", "it's", "-n", "\n\"", "; touch pwned #", "$(touch pwned)", "\xff", "\u202e", "\\", "*", "~", "!x"}
	for name, args := range map[string][]string{
		"arguments": append([]string{"--", "sh", "-c", "printf '%s\\n' \"$@\" >made", "sh"}, odd...),
		"script":    append([]string{"-c", "printf '%s\\n' \"$@\" >made\n# it's \"\n"}, odd...),
		"file":      append([]string{"-c", "@" + file}, odd...),
		"flags":     {"-env", "HOME", "-env", "NOT_SET", "-C", "sub dir", "-session", "its", "-sandbox", "ask", "--", "touch", "../made"},
	} {
		if err := os.MkdirAll(filepath.Join(p.project, "sub dir"), 0o755); err != nil {
			t.Fatal(err)
		}
		run := func() (string, error) {
			cmd := exec.Command(filepath.Join(p.bin, "sbxhost"), append([]string{"exec"}, args...)...)
			cmd.Dir, cmd.Env = p.project, p.env()
			out, err := cmd.CombinedOutput()
			return string(out), err
		}
		out, err := run()
		_, hint, ok := strings.Cut(strings.TrimSpace(out), "to approve it first: ")
		if err == nil || !ok {
			t.Fatalf("%s: %v, %s", name, err, out)
		}
		paste := exec.Command("bash", "-c", hint)
		paste.Dir, paste.Env = t.TempDir(), p.env()
		// Of another session than the command's.
		paste.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if pasted, err := paste.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v, %s\nof %s", name, err, pasted, hint)
		}
		if out, err = run(); err != nil || !p.made() {
			t.Errorf("%s: %v, %s\nafter %s", name, err, out, hint)
		}
		os.Remove(filepath.Join(p.project, "made"))
	}
	for _, dir := range []string{p.project, p.home} {
		if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
			t.Error("what was pasted ran something else")
		}
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
	write("sandbox \"fast\" {\n  engine = \"native\"\n}\n")
	l := run()
	l.sees(asks)
	l.types("n\r")
	if status := l.ends(); status != 125 || p.made() || !strings.Contains(l.text(), "+  engine = \"native\"\r\n") {
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
		!strings.Contains(l.text(), "-  engine = \"native\"\r\n+  engine = \"noop\"\r\n") {
		t.Errorf("%s", l.text())
	}
}
