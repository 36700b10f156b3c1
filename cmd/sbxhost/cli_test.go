package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/engines"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/explain"
	"github.com/sbxhost/sbxhost/shared"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it); got:\n%s", path, got)
	}
}

// Every command has a help, every help a command, and each lists what is below it.
func TestHelp(t *testing.T) {
	t.Parallel()
	files, err := helpTexts.ReadDir("help")
	if err != nil || len(files) != len(commands())+1 {
		t.Errorf("%d help texts for %d commands and sbxhost itself: %v", len(files), len(commands()), err)
	}
	for _, c := range append(commands(), command{}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, out, errs, _ := testApp(t, nil, "")
			if status := runLine(a, append(strings.Fields(c.name), "-help")); status != 0 || errs.Len() > 0 {
				t.Errorf("status %d, standard error %q", status, errs)
			}
			if !strings.HasPrefix(out.String(), strings.TrimSpace("Usage: sbxhost "+c.name)) {
				t.Errorf("it begins with %.40q", out)
			}
			for line := range strings.Lines(out.String()) {
				if len(line) > 86 || strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") {
					t.Errorf("line too long, or with blanks at its end: %q", line)
				}
			}
			for _, word := range below(c.name) {
				if word != "serve" && !strings.Contains(out.String(), "  "+word+" ") { // serve is for sbx alone
					t.Errorf("it does not list %q", word)
				}
			}
		})
	}
}

// Every flag is in the help.
func TestFlagsAreDocumented(t *testing.T) {
	t.Parallel()
	for _, c := range commands() {
		if c.define == nil {
			continue
		}
		a, _, _, _ := testApp(t, nil, "")
		fs := cli.NewFlags(c.name)
		c.define(a, fs)
		unsaid := map[string]string{
			// As of exec, or of no use:
			"approvals add": "t network publish read-only timeout review", "shell": "t c",
		}[c.name]
		fs.VisitAll(func(f *flag.Flag) {
			if !strings.Contains(help(c.name), "-"+f.Name) && !slices.Contains(strings.Fields(unsaid), f.Name) {
				t.Errorf("the help of %s has no -%s", c.name, f.Name)
			}
		})
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{}, {"bogus"}, {"-bogus", "exec"}, {"engines"}, {"engines", "bogus"}, {"validate", "x"},
		{"version"}, {"engines", "list"}, {"approvals", "revoke", "-all", "x"}, {"init", "a", "b"}, {"sessions"}, {"sessions", "rm"}, {"sessions", "list", "nobodys"}, {"fmt", "-bogus"},
	} {
		a, out, errs, _ := testApp(t, nil, "")
		if status := runLine(a, args); status != cli.StatusFailed || out.Len() > 0 || errs.Len() == 0 {
			t.Errorf("%q: status %d, output %q, standard error %q", args, status, out, errs)
		}
	}
}

func TestHelpIsReachedInManyWays(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"help", "exec"}, {"exec", "-h"}, {"exec", "--help"}, {"-h", "exec"}} {
		a, out, _, _ := testApp(t, nil, "")
		if status := runLine(a, args); status != 0 || !strings.HasPrefix(out.String(), "Usage: sbxhost exec") {
			t.Errorf("%q: status %d, output %q", args, status, out)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-version"}, {"--version"}} {
		a, out, _, _ := testApp(t, nil, "")
		if status := runLine(a, args); status != 0 || !strings.Contains(out.String(), "go1.") {
			t.Errorf("%q: status %d, output %q", args, status, out)
		}
	}
}

func TestExplainShowsNoValue(t *testing.T) {
	t.Parallel()
	for _, mode := range [][]string{nil, {"-v"}, {"-json"}} {
		a, out, errs, path := testApp(t, &fakeEngine{}, fastConfig)
		args := slices.Concat([]string{"explain"}, mode, []string{"-config", path, "-env", "TOKEN=hunter2", "--", "ls", "a b"})
		if status := runLine(a, args); status != 0 {
			t.Fatalf("status %d: %s", status, errs)
		}
		if strings.Contains(out.String(), "hunter2") || !strings.Contains(out.String(), "TOKEN") {
			t.Errorf("%s", out)
		}
		if !slices.Contains(mode, "-json") {
			// How wide a column is depends on the length of paths.
			text := regexp.MustCompile(`(\S) {2,}`).ReplaceAllString(out.String(), "$1  ")
			golden(t, "explain"+strings.Join(mode, "")+".txt", strings.ReplaceAll(text, filepath.Dir(path), "$DIR"))
			continue
		}
		var e struct {
			Sandbox, Rule, Network string
			Command                []string
			Table                  []struct{ Access, Why, Source, Path string }
		}
		if err := json.Unmarshal(out.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if e.Sandbox != "fast" || e.Rule == "" || e.Network != "none" || !slices.Equal(e.Command, []string{"ls", "a b"}) || !slices.ContainsFunc(e.Table, func(e struct{ Access, Why, Source, Path string }) bool {
			return e.Access == "read-write" && e.Why == "workspace" && e.Source == e.Path
		}) {
			t.Errorf("%+v", e)
		}
	}
}

// What the sandbox has at a path, and what changes that.
func TestExplainPath(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, about := range []string{"made", "/etc/passwd", "/tmp/none-such", "/none-such", "../beside", "/run", "/dev/null", "/dev/none-such", "/proc/1/mem", "ci/link", "link", "link/.bashrc", "loop"} {
		a, out, errs, path := testApp(t, &fakeEngine{}, "sandbox \"fast\" {\n  engine = \"bwrap\"\n  protect_paths = [\"ci/\"]\n}\n")
		if err := cmp.Or(os.WriteFile(filepath.Join(filepath.Dir(a.Dir), "beside"), nil, 0o644), os.WriteFile(filepath.Join(a.Dir, "there"), nil, 0o644),
			os.Mkdir(filepath.Join(a.Dir, "ci"), 0o755), os.Symlink("../there", filepath.Join(a.Dir, "ci/link")),
			os.Symlink("ci/..", filepath.Join(a.Dir, "link")), os.Symlink("loop", filepath.Join(a.Dir, "loop"))); err != nil {
			t.Fatal(err)
		}
		if status := runLine(a, []string{"explain", "-config", path, "-path", about}); status != 0 && about != "loop" {
			t.Fatalf("%s: status %d: %s", about, status, errs)
		}
		text := strings.NewReplacer(a.Dir, "$DIR", filepath.Dir(a.Dir), "$BASE", filepath.Dir(path), "$CONFIG").Replace(out.String() + errs.String())
		b.WriteString("$ sbxhost explain -path " + about + "\n" + text + "\n")
	}
	golden(t, "explain-path.txt", b.String())
}

// Each rule of a network stands by itself, with its line or the flag.
func TestExplainNamesRules(t *testing.T) {
	t.Parallel()
	config := "sandbox \"fast\" {\n  engine = \"bwrap\"\n  network = [\n"
	for i := range 15 {
		config += fmt.Sprintf("    \"n%d.example:22\",\n", i)
	}
	config += "  ]\n  fallback = \"deny\"\n}\n" // as it is without the line
	info, err := new(fakeEngine).Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for flags, wants := range map[string][]string{
		"":                             {"only the names of 15 rules", "network[0] sandbox.hcl:4 n0.example:22", "network[14] sandbox.hcl:18 n14.example:22"},
		"-v":                           {"network[14] sandbox.hcl:18 n14.example:22"},
		"-network=a.example,b.example": {"network only a.example, b.example", "network[0] -network a.example", "network[1] -network b.example"},
	} {
		a, out, errs, path := testApp(t, &fakeEngine{features: append(info.Features, shared.FeatureNetworkNames)}, config)
		if status := runLine(a, append([]string{"explain", "-config", path}, strings.Fields(flags)...)); status != 0 {
			t.Fatalf("status %d: %s", status, errs)
		}
		text := regexp.MustCompile(` +`).ReplaceAllString(out.String(), " ")
		for _, want := range wants {
			if !strings.Contains(text, want+"\n") && !strings.Contains(text, want+",") {
				t.Errorf("%s: it lacks %q:\n%s", flags, want, text)
			}
		}
		if _, short, _ := strings.Cut(text, "Not the default:"); flags == "" && (strings.Contains(short, "network [") || strings.Contains(short, "fallback")) {
			t.Errorf("in short:\n%s", short)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, config     string
		valid            bool
		errors, warnings int
		stderr           string
	}{
		{"valid", fastConfig, true, 0, 0, ""},
		{"typo", "sandbox \"fast\" {\n  engin = \"bwrap\"\n  netwrk = true\n}\n", false, 2, 0, "sandbox.hcl line 2"},
		{"engine option", "sandbox \"fast\" {\n  engine = \"bwrap\"\n  config {\n    pth = \"/x\"\n  }\n}\n", false, 1, 0, "sandbox.hcl line 4"},
		{"not HCL", "sandbox {", false, 1, 0, "sandbox.hcl line 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, out, errs, path := testApp(t, &fakeEngine{}, tt.config)
			want := 0
			if !tt.valid {
				want = cli.StatusFailed
			}
			if status := runLine(a, []string{"validate", "-config", path, "-json"}); status != want {
				t.Errorf("status %d: %s", status, errs)
			}
			var v explain.Validation
			if err := json.Unmarshal(out.Bytes(), &v); err != nil {
				t.Fatal(err)
			}
			if v.Valid != tt.valid || v.ErrorCount != tt.errors || v.WarningCount != tt.warnings {
				t.Errorf("%+v", v)
			}
			if status := runLine(a, []string{"validate", "-config", path}); status != want || !strings.Contains(errs.String(), tt.stderr) {
				t.Errorf("status %d: %s", status, errs)
			}
		})
	}
}

// validate reports the first fault of a sandbox, and all missing paths at once. An engine that does
// not work on this machine is a warning.
func TestValidateTries(t *testing.T) {
	t.Parallel()
	lacking := "sandbox \"fast\" {\n  engine = \"bwrap\"\n  bind_paths = [{ host = \"/nosuch/a\" },\n    { host = \"/nosuch/b\" }]\n  limits {\n    memory = \"1GiB\"\n    pids   = 19\n  }\n}\n"
	for _, tt := range []struct {
		name             string
		engine           *fakeEngine
		config           string
		errors, warnings int
		lines            []int
		usable           bool
	}{
		{"usable", &fakeEngine{}, fastConfig, 0, 0, nil, true},
		{"lacking", &fakeEngine{}, lacking, 2, 0, []int{3, 4}, false},
		{"broken", &fakeEngine{broken: true}, fastConfig, 0, 1, []int{2}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, out, errs, path := testApp(t, tt.engine, tt.config)
			if status := runLine(a, []string{"validate", "-config", path, "-json"}); status != min(tt.errors, 1)*cli.StatusFailed {
				t.Errorf("status %d: %s", status, errs)
			}
			var v explain.Validation
			if err := json.Unmarshal(out.Bytes(), &v); err != nil {
				t.Fatal(err)
			}
			var lines []int
			for _, d := range v.Diagnostics {
				lines = append(lines, d.Range.Start.Line)
			}
			if v.ErrorCount != tt.errors || v.WarningCount != tt.warnings || !slices.Equal(lines, tt.lines) || len(v.Sandboxes) != 1 || !v.Sandboxes[0].Done || v.Sandboxes[0].Usable != tt.usable {
				t.Errorf("%s", out)
			}
		})
	}
}

func TestInitAndFmt(t *testing.T) {
	t.Parallel()
	a, out, errs, _ := testApp(t, nil, "")
	path := filepath.Join(a.Dir, "config.hcl")
	if status := runLine(a, []string{"init"}); status != 0 || out.String() != path+"\n" {
		t.Fatalf("status %d, output %q: %s", status, out, errs)
	}
	if status := runLine(a, []string{"init"}); status != cli.StatusFailed {
		t.Errorf("a second init gave status %d", status)
	}
	if status := runLine(a, []string{"fmt", "-check", "config.hcl"}); status != 0 {
		t.Errorf("what init writes is not laid out: %s", out)
	}
	out.Reset()
	if err := os.WriteFile(path, []byte("sandbox \"s\" {\nengine=\"auto\"\n}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if status := runLine(a, []string{"fmt", "-check", "config.hcl"}); status != statusUnformatted || out.String() != "config.hcl\n" {
		t.Errorf("-check: status %d, output %q", status, out)
	}
	if status := runLine(a, []string{"fmt"}); status != 0 {
		t.Errorf("status %d: %s", status, errs)
	}
	text, _ := os.ReadFile(path)
	info, _ := os.Stat(path)
	if string(text) != "sandbox \"s\" {\n  engine = \"auto\"\n}\n" || info.Mode().Perm() != 0o600 {
		t.Errorf("%v: %s", info.Mode(), text)
	}
	if status := runLine(a, []string{"init", "-force"}); status != 0 {
		t.Errorf("-force: status %d: %s", status, errs)
	}
	out.Reset()
	a.Stdin = strings.NewReader("a=1\n")
	if status := runLine(a, []string{"fmt", "-"}); status != 0 || out.String() != "a = 1\n" {
		t.Errorf("status %d, output %q: %s", status, out, errs)
	}
	a.Stdin = strings.NewReader("a = [\n")
	if status := runLine(a, []string{"fmt", "-"}); status != cli.StatusFailed {
		t.Errorf("what is not HCL gave status %d", status)
	}
	if entries, _ := os.ReadDir(a.Dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestEngines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"doctor"}, engines.StatusNotReady, "built in"},
		{[]string{"doctor", "-json"}, engines.StatusNotReady, `"built_in": true`},
		{[]string{"doctor", "bwrap"}, engines.StatusNotReady, "bwrap: does not work here: it is fake\n  fix: use a real one\n"},
		{[]string{"doctor", "bubblewrap"}, engines.StatusNotReady, "it is fake"},
		{[]string{"doctor", "-json", "bwrap"}, engines.StatusNotReady, `"ready": false`},
		{[]string{"doctor", "bogus"}, cli.StatusFailed, ""},
		{[]string{"doctor", "-seen", "bwrap"}, cli.StatusFailed, ""},
	} {
		a, out, errs, path := testApp(t, &fakeEngine{broken: true}, fastConfig)
		a.Environ = append(a.Environ, "SBXHOST_CONFIG="+path)
		if status := runLine(a, tt.args); status != tt.status || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%q: status %d, output %q: %s", tt.args, status, out, errs)
		}
	}
}

// What a shell is offered for a line.
func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"":                       "approvals doctor engines exec explain fmt init review serve sessions shell trust validate",
		"sbxhost ":               "approvals doctor engines exec explain fmt init review serve sessions shell trust validate",
		"sbxhost e":              "engines exec explain",
		"sbxhost -v":             "-version",
		"sbxhost exec -no":       "-no-sandbox",
		"sbxhost exec -network ": "",
	} {
		out := &output{}
		a := &cli.App{Stdout: out, Stderr: out, Caller: inforce.Caller{Environ: []string{"COMP_LINE=" + line + " cut off", fmt.Sprintf("COMP_POINT=%d", len(line))}}}
		status := runLine(a, nil)
		got := strings.Fields(out.String())
		slices.Sort(got)
		if status != 0 || strings.Join(got, " ") != want {
			t.Errorf("%q: %d, %q", line, status, got)
		}
	}
}
