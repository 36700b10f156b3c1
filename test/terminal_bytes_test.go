//go:build linux

package test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Every byte gets through, both ways.
func testBytes(t *testing.T, p *place) {
	var all []byte
	for b := range 256 {
		all = append(all, byte(b))
	}
	l := p.dial(t, "exec", "-t", "--", "sh", "-c", `stty raw -echo; echo ready; head -c 256 >bytes; printf '<'; cat bytes; printf '>'; test "$(wc -c <bytes)" = 256`)
	l.sees("ready")
	l.becomesRaw()
	l.types(string(all))
	if status := l.ends(); status != 0 {
		t.Errorf("status %d", status)
	}
	l.sees("<" + string(all) + ">")
	if got, err := os.ReadFile(filepath.Join(p.project, "bytes")); !bytes.Equal(got, all) {
		t.Errorf("the command got %q, %v", got, err)
	}
}

// A large paste arrives whole, with its characters of several bytes.
func testPaste(t *testing.T, p *place) {
	l := p.dial(t, "exec", "-t", "--", "sh", "-c", "stty -echo; echo ready; cat >pasted")
	l.sees("ready")
	l.becomesRaw()
	paste := strings.Repeat("a line of what somebody pastes, äöü €\n", 10_000)
	// What the kernel's editor erases is a character.
	l.types(paste + "wrong €\x7fright\n\x04")
	if status := l.ends(); status != 0 {
		t.Errorf("status %d", status)
	}
	if got, err := os.ReadFile(filepath.Join(p.project, "pasted")); string(got) != paste+"wrong right\n" {
		t.Errorf("the command got %d bytes, not %d, that end in %q, %v", len(got), len(paste), got[max(0, len(got)-40):], err)
	}
}

// Output that nobody takes any more hangs the command up.
func testClosedOutput(t *testing.T, p *place) {
	cmd := exec.Command("sh", "-c", "sbxhost exec -t -- yes | head -n 1")
	cmd.Dir, cmd.Env = p.project, p.env()
	if out, err := cmd.CombinedOutput(); string(out) != "y\r\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	cmd = exec.Command(filepath.Join(p.bin, "sbxhost"), "exec", "-t", "--", "cat")
	cmd.Dir, cmd.Env, cmd.Stdin = p.project, p.env(), strings.NewReader("no end of line")
	if out, err := cmd.CombinedOutput(); !strings.HasSuffix(string(out), "no end of line") || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}

// The command has no terminal of its caller's, in none of its files, nor has any
// process but sbxhost itself. What is a terminal outside is one inside, but for input
// that somebody else may want.
func testOwn(t *testing.T, p *place) {
	for _, sandbox := range []string{"fast", "open", "wrap"} {
		for redirected, want := range map[string]string{
			"":                         "012 24 80",
			"</dev/null":               "12 24 80",
			"| cat":                    "2 24 80",
			">out":                     "2 24 80",
			"2>err":                    "01 24 80",
			">out 2>&1":                " ",
			"</dev/null >out":          "2 24 80",
			"</dev/null 2>err | cat":   " ",
			"</dev/tty >/dev/tty 2>&0": "012 24 80",
		} {
			t.Run(sandbox+redirected, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t, p.bin)
				const script = `exec 9>&1; t=; for n in 0 1 2; do test -t $n && t=$t$n; done
					s=; case $t in *2) s=$(stty size <&2) ;; *1) s=$(stty size <&9) ;; esac; exec 9>&-
					(exec </dev/tty) 2>/dev/null && test "${t#0}" = "$t" && echo "a terminal all the same" >>seen
					echo "$t $s" >>seen; mkfifo wait; cat wait >/dev/null; echo end >>seen`
				if err := os.WriteFile(filepath.Join(p.project, "script"), []byte(script), 0o644); err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command("sh", "-c", "sbxhost exec -sandbox "+sandbox+" -- sh script "+redirected)
				cmd.Dir, cmd.Env = p.project, p.env()
				l := connect(t, cmd)
				wait := filepath.Join(p.project, "wait")
				until(t, "the command", func() bool { _, err := os.Stat(wait); return err == nil }, l.text)
				if got, err := os.ReadFile(filepath.Join(p.project, "seen")); string(got) != want+"\n" || err != nil {
					t.Errorf("the command sees %q, want %q, %v", got, want, err)
				}
				callers, err := os.Stat(slaveOf(t, l.master))
				if err != nil {
					t.Fatal(err)
				}
				has := map[string]bool{}
				files, _ := filepath.Glob("/proc/[0-9]*/fd/*")
				for _, file := range files {
					if info, err := os.Stat(file); err == nil && os.SameFile(info, callers) {
						pid := strings.Split(file, "/")[2]
						line, _ := os.ReadFile("/proc/" + pid + "/cmdline")
						has[strings.ReplaceAll(string(line), "\x00", " ")] = true
					}
				}
				for line := range has {
					if !strings.HasPrefix(line, "sbxhost exec ") && !strings.HasPrefix(line, "sh -c sbxhost ") && line != "cat " {
						t.Errorf("%q has the terminal", line)
					}
				}
				if len(has) == 0 {
					t.Error("nobody has the terminal")
				}
				if err := os.WriteFile(wait, []byte("go"), 0); err != nil {
					t.Fatal(err)
				}
				if status := l.ends(); status != 0 {
					t.Errorf("status %d: %s", status, l.text())
				}
			})
		}
	}
}

// What goes to a file or a pipe goes there byte by byte, and what goes to the
// terminal as it would from any program.
func testExact(t *testing.T, p *place) {
	for _, sandbox := range []string{"fast", "open", "wrap"} {
		for redirected, want := range map[string]struct{ out, err, screen string }{
			">out":                  {"a\nb\r\n\x03\x1a\xff", "", "c\r\n"},
			"2>err":                 {"", "c\n", "a\r\nb\r\r\n\x03\x1a\xff"},
			">out 2>err":            {"a\nb\r\n\x03\x1a\xff", "c\n", ""},
			"2>err | cat >out":      {"a\nb\r\n\x03\x1a\xff", "c\n", ""},
			"</dev/null":            {"", "", "a\r\nb\r\r\n\x03\x1a\xffc\r\n"},
			"":                      {"", "", "a\r\nb\r\r\n\x03\x1a\xffc\r\n"},
			"</dev/null 2>err >out": {"a\nb\r\n\x03\x1a\xff", "c\n", ""},
		} {
			t.Run(sandbox+redirected, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t, p.bin)
				if sandbox == "open" { // which sbxhost has a line for
					const warning = `running WITHOUT a sandbox (engine-named-unconfined): the definition names engine "noop", which does not isolate commands`
					if strings.Contains(redirected, "2>err") {
						want.err = "sbxhost: " + warning + "\n" + want.err
					} else {
						want.screen = "\x1b[1msbxhost:\x1b[0m " + warning + "\r\n" + want.screen
					}
				}
				cmd := exec.Command("sh", "-c", "sbxhost exec -sandbox "+sandbox+` -- sh -c 'while [ ! -e go ]; do sleep 0.01; done; printf "a\nb\r\n\003\032\377"; printf "c\n" >&2' `+redirected)
				cmd.Dir, cmd.Env = p.project, p.env()
				l := connect(t, cmd)
				if redirected == "" || redirected == "2>err" {
					l.becomesRaw() // before that it ends lines as well as the command's own
				}
				if err := os.WriteFile(filepath.Join(p.project, "go"), nil, 0o644); err != nil {
					t.Fatal(err)
				}
				if status := l.ends(); status != 0 {
					t.Errorf("status %d", status)
				}
				until(t, fmt.Sprintf("%q", want.screen), func() bool { return l.text() == want.screen }, func() string { return fmt.Sprintf("%q", l.text()) })
				for name, want := range map[string]string{"out": want.out, "err": want.err} {
					if got, err := os.ReadFile(filepath.Join(p.project, name)); string(got) != want || err != nil && !os.IsNotExist(err) {
						t.Errorf("%s: %q, want %q, %v", name, got, want, err)
					}
				}
			})
		}
	}
}
