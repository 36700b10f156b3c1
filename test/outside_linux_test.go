package test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/sbxhost/sbxhost/internal/testing/programs"
)

// planted is a machine on which commands have put programs wherever they can write, and their directories
// first into the PATH of their user.
type planted struct {
	*place
	dirs []string // with programs of commands
	ran  string   // what such a program writes that was executed
}

// impostors are the names that sbxhost, git and gh look for.
var impostors = []string{"git", "less", "more", "pager", "delta", "bat", "sh", "env", "cat", "gh", "sbxhost", "git-diff", "ssh", "unshare", "mount", "busctl"}

func newPlanted(t *testing.T) *planted {
	t.Helper()
	requireBwrap(t)
	need(t, "git")
	bin := t.TempDir()
	build(t, bin, "cmd/sbxhost")
	p := &planted{place: newPlace(t, bin)}
	top := filepath.Dir(p.home)
	t.Cleanup(func() { exec.Command("chmod", "-R", "u+rwx", top).Run() }) // the kernel closes a directory of an overlay
	p.ran = top + "/ran"
	p.dirs = []string{
		p.project + "/.venv/bin", p.project + "/node_modules/.bin", top + "/second/bin", top + "/bound/bin", p.home + "/beside/bin",
		p.home + "/.cache/sbxhost/sessions/0123456789abcdef/home/.local/bin", top + "/.sbxhost-reviews/0123456789abcdef/r/upper/bin",
	}
	for _, dir := range p.dirs {
		p.impersonate(t, dir, impostors...)
	}
	// A directory of the user's with links to what commands wrote, and one that commands lead to.
	linked := top + "/linked"
	if err := os.Mkdir(linked, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range impostors {
		if err := os.Symlink(p.dirs[0]+"/"+name, linked+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(p.dirs[0], top+"/led"); err != nil {
		t.Fatal(err)
	}
	p.dirs = append(p.dirs, linked, top+"/led", ".", "", "node_modules/.bin")
	p.write(t, p.home+"/sandbox.hcl", `default_sandbox = "fast"

workspace {
  writable = ["`+top+`/second"]
}

sandbox "fast" {
  engine = "native"
}

sandbox "other" {
  engine     = "native"
  bind_paths = [{ host = "`+top+`/bound", read_only = false }, { host = "~/beside", read_only = false }]
}
`)
	return p
}

func (p *planted) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// impersonate puts programs into a directory that tell if they run.
func (p *planted) impersonate(t *testing.T, dir string, names ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := programs.Write(dir+"/"+name, []byte("#!/bin/sh\necho $0 >>"+p.ran+"\nexit 1\n")); err != nil {
			t.Fatal(err)
		}
	}
}

func (p *planted) environ(more ...string) []string {
	env := slices.DeleteFunc(p.env(), func(e string) bool { return strings.HasPrefix(e, "PATH=") })
	return append(env, slices.Concat([]string{"PATH=" + strings.Join(p.dirs, ":") + ":" + p.bin + ":/usr/local/bin:/usr/bin:/bin"}, more)...)
}

// command is sbxhost with such an environment.
func (p *planted) command(env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(p.bin+"/sbxhost", args...)
	cmd.Dir, cmd.Env = p.project, p.environ(env...)
	return cmd
}

// review has a command change something in review r.
func (p *planted) review(t *testing.T, script string) {
	t.Helper()
	if out, err := p.command(nil, "exec", "-quiet", "-review", "r", "-sandbox", "fast", "--", "/bin/sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// unharmed fails where a program ran that a command had put there.
func (p *planted) unharmed(t *testing.T, what string) {
	t.Helper()
	if ran, err := os.ReadFile(p.ran); err == nil {
		t.Errorf("%s: outside of the sandbox ran %s", what, ran)
		os.Remove(p.ran)
	}
}

// Whatever names programs - PATH, variables, configurations, the files that are compared - none that a
// command can have written runs when somebody looks at a review.
func TestReviewDiffRunsNothingOfACommand(t *testing.T) {
	t.Parallel()
	p := newPlanted(t)
	evil := p.dirs[0] + "/less"
	// Names programs in all the ways in which git's configuration does.
	config := "[core]\n\tpager = " + evil + "\n\tfsmonitor = " + evil + "\n\tattributesFile = " + p.project + "/attributes\n[diff]\n\texternal = " + evil +
		"\n[diff \"d\"]\n\tcommand = " + evil + "\n\ttextconv = " + evil + "\n[filter \"f\"]\n\tclean = " + evil + "\n[pager]\n\tdiff = " + evil + "\n[alias]\n\tdiff = !" + evil + "\n"
	p.write(t, p.project+"/.git/config", config)
	p.write(t, p.project+"/text", "old\n")
	p.write(t, p.project+"/attributes", "* diff=d filter=f\n")
	p.write(t, p.project+"/gitconfig", config)
	p.write(t, p.project+"/config/git/config", config)
	p.write(t, p.home+"/.gitconfig", config)
	p.unharmed(t, "before")
	p.review(t, `echo new >text; printf '* diff=d filter=f -text\n* -diff\n' >.gitattributes; mkdir -p sub/.git; echo '* -diff' >sub/.gitattributes; echo x >sub/x; printf '[core]\n\tpager = `+evil+`\n' >sub/.git/config`)
	p.unharmed(t, "the command itself")
	for name, env := range map[string][]string{
		"nothing set":             {},
		"pagers":                  {"PAGER=" + evil, "GIT_PAGER=" + evil},
		"an external diff":        {"GIT_EXTERNAL_DIFF=" + evil, "GIT_EXEC_PATH=" + p.dirs[0]},
		"a library":               {"LD_PRELOAD=" + p.project + "/evil.so", "LD_LIBRARY_PATH=" + p.project, "LD_AUDIT=" + p.project + "/evil.so"},
		"configuration":           {"GIT_CONFIG_GLOBAL=" + p.project + "/gitconfig", "GIT_CONFIG_SYSTEM=" + p.project + "/gitconfig"},
		"configuration by words":  {"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=core.pager", "GIT_CONFIG_VALUE_0=" + evil, "GIT_CONFIG_KEY_1=diff.external", "GIT_CONFIG_VALUE_1=" + evil},
		"parameters":              {"GIT_CONFIG_PARAMETERS='diff.external=" + evil + "' 'core.pager=" + evil + "'"},
		"configuration elsewhere": {"XDG_CONFIG_HOME=" + p.project + "/config"},
		"a repository":            {"GIT_DIR=" + p.project + "/.git", "GIT_WORK_TREE=" + p.project},
	} {
		for _, on := range []string{"a terminal", "a pipe"} {
			cmd := p.command(env, "review", "show", "-patch", "r")
			var text string
			if on == "a pipe" {
				out, err := cmd.CombinedOutput()
				if text = string(out); err != nil {
					t.Errorf("%s, on %s: %v", name, on, err)
				}
			} else {
				text = onTerminal(t, cmd)
			}
			p.unharmed(t, name+", on "+on)
			// The files' attributes hide nothing either.
			for _, want := range []string{"-old", "+new", "+x", "sub/.git/config"} {
				if !strings.Contains(text, want) {
					t.Errorf("%s, on %s: no %q in %s", name, on, want, text)
				}
			}
		}
	}

	// With no other git it is none, and that is said.
	p.dirs = append(p.dirs[:len(p.dirs)-3], "") // all but the system's
	cmd := p.command(nil, "review", "show", "-patch", "r")
	cmd.Env = append(cmd.Env, "PATH="+strings.Join(p.dirs, ":"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "no diff of contents: git: PATH has none that only you and root can replace: ") || !strings.Contains(string(out), "modified text") {
		t.Errorf("%v: %s", err, out)
	}
	p.unharmed(t, "without git")
}

// What files contain does not act on the terminal on which their difference is shown; a file gets it as it is.
func TestReviewDiffShowsEscapes(t *testing.T) {
	t.Parallel()
	p := newPlanted(t)
	p.dirs = nil
	p.write(t, p.project+"/text", "old\x1b]0;old title\x07\n")
	hostile := map[string]string{ // by what is shown instead
		`\x1b]0;title\a`: "\x1b]0;title\x07", `\x1b[2J`: "\x1b[2J", `\x1b[8mhidden\x1b[0m`: "\x1b[8mhidden\x1b[0m", `\x1bP+q\x1b\`: "\x1bP+q\x1b\\", `\x9b2J`: "\x9b2J", `\u009b2J`: "\u009b2J",
		`evil\rgood`: "evil\rgood", `\b\b`: "\b\b", `\u202egnp`: "\u202egnp", `\u2066x\u2069`: "\u2066x\u2069", `a\u200bb`: "a\u200bb", `\xff\xfe`: "\xff\xfe", `\x7f`: "\x7f", `\v\f`: "\v\f",
		`\u2028`: "\u2028", `\U000e0041`: "\U000e0041", `crlf\r`: "crlf\r",
	}
	var lines strings.Builder
	for _, text := range hostile {
		lines.WriteString(text + "\n")
	}
	lines.WriteString("\tplain äö 日本 \\x1b\n\x1b[31mno end")
	p.write(t, p.project+"/hostile", lines.String())
	p.review(t, "cp hostile text; echo x >\"$(printf 'na\\033]0;x\\007\\nme')\"; printf '@@ -1 +1 @@\\n--- a/x\\ndiff --git\\n' >forged; rm hostile")
	colours := regexp.MustCompile("\x1b\\[(1|7|27|31|32|36)?m")
	for name, env := range map[string][]string{"colours": nil, "none": {"NO_COLOR=1"}, "dumb": {"TERM=dumb"}} {
		text := onTerminal(t, p.command(env, "review", "show", "-patch", "r"))
		patch, _, _ := strings.Cut(strings.ReplaceAll(text, "\r\n", "\n"), "\n\x1b[1msbxhost:")
		coloured := strings.Contains(patch, "\x1b[31m-old") && strings.Contains(patch, "\x1b[32m+")
		if want := name == "colours"; coloured != want {
			t.Errorf("%s: colours: %v: %q", name, coloured, patch)
		}
		if patch = colours.ReplaceAllString(patch, ""); strings.ContainsFunc(patch, func(r rune) bool {
			return r != '\n' && r != '\t' && (r < ' ' || r >= 0x7f && r < 0xa0 || r == 0xfffd || r >= 0x2000 && r < 0x2070 || r >= 0xe0000)
		}) {
			t.Errorf("%s: %q", name, patch)
		}
		for want := range hostile {
			if !strings.Contains(patch, "+"+want+"\n") || !strings.Contains(patch, "-"+want+"\n") {
				t.Fatalf("%s: no %q in %q", name, want, patch)
			}
		}
		for _, want := range []string{"+\tplain äö 日本 \\x1b\n", "+@@ -1 +1 @@\n", "+--- a/x\n", "\\ No newline at end of file\n", `na\033]0;x\a\nme`} {
			if !strings.Contains(patch, want) {
				t.Errorf("%s: no %q in %q", name, want, patch)
			}
		}
	}
	patch, err := p.command(nil, "review", "show", "-patch", "r").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range hostile {
		if !bytes.Contains(patch, []byte("\n+"+text+"\n")) {
			t.Errorf("to a file: no %q", text)
		}
	}
	// It can be applied.
	apply := exec.Command("git", "apply", "-p1", "-")
	apply.Dir, apply.Stdin = p.project, bytes.NewReader(patch)
	apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(p.project))
	if out, err := apply.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if text, err := os.ReadFile(p.project + "/text"); err != nil || string(text) != lines.String() {
		t.Errorf("applied: %q, %v", text, err)
	}
}

// Sbx knows no definition, and so not where commands write: it becomes the sbxhost that was installed with it,
// and none that its user's PATH or directory has.
func TestSbxBecomesItsOwnSbxhost(t *testing.T) {
	t.Parallel()
	p := newPlanted(t)
	alone, both := t.TempDir(), t.TempDir()
	build(t, alone, "cmd/sbx")
	build(t, both, "cmd/sbx", "cmd/sbxhost")
	linked := filepath.Dir(p.home) + "/sbx-link"
	if err := os.Symlink(both+"/sbx", linked); err != nil {
		t.Fatal(err)
	}
	sbx := func(program string) (string, error) {
		cmd := exec.Command(program, "-quiet", "--", "/bin/echo", "done")
		cmd.Dir, cmd.Env = p.project, append(p.environ(), "SBX_SERVE=off")
		out, err := cmd.CombinedOutput()
		p.unharmed(t, program)
		return string(out), err
	}
	for _, program := range []string{both + "/sbx", linked} {
		if out, err := sbx(program); err != nil || out != "done\n" {
			t.Errorf("%s: %v: %s", program, err, out)
		}
	}
	if out, err := sbx(alone + "/sbx"); err == nil || !strings.Contains(out, "sbx: there is no sbxhost beside it: install both in one directory") {
		t.Errorf("alone: %v: %s", err, out)
	}
	// Another user's is none, wherever it lies.
	wants := map[string]func(string) error{"is writable by its group or by others": func(file string) error { return os.Chmod(file, 0o777) }}
	if os.Geteuid() == 0 {
		wants["belongs to another user"] = func(file string) error { return os.Chown(file, 12345, 12345) }
	}
	for want, change := range wants {
		os.Remove(alone + "/sbxhost") // another's stays another's
		p.impersonate(t, alone, "sbxhost")
		if err := change(alone + "/sbxhost"); err != nil {
			t.Fatal(err)
		}
		if out, err := sbx(alone + "/sbx"); err == nil || !strings.Contains(out, want) {
			t.Errorf("%v: %s, want %q", err, out, want)
		}
	}
}

// onTerminal runs a command on a large terminal, and gives what that gets.
func onTerminal(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 500, Cols: 200})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	late := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer late.Stop()
	text, _ := io.ReadAll(terminal) // until nobody has its other end
	if err := cmd.Wait(); err != nil {
		t.Errorf("%q: %v: %s", cmd.Args, err, text)
	}
	return string(text)
}
