package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/internal/source"
)

// What the documents show is held to by these tests. The conventions:
//
//   - ```console is run, in order, by one bash for each document, in a scratch
//     directory with a home of its own, and CLONE set to the top of this module.
//     That of an example's README is a copy of the example, elsewhere. A line "$ ..." is a command; what follows
//     up to the next one is all that it writes, to either stream. In it "..."
//     stands for any text, and on a line of its own for any lines. A command
//     fails only where the next one is `echo $?`.
//   - ```sh is for what people run and tests do not: make and its targets, which
//     must exist, and apt-get install.
//   - ```hcl is a configuration without errors, or with one if the fence says
//     "hcl refused". <!-- file: NAME --> before it puts it into the scratch
//     directory.
//   - ```go is a part of the file that <!-- PATH --> before it names, which is a
//     program of this module: it is built with everything else, and commands can
//     run it by its directory's name. <!-- file: NAME from PATH --> also puts it
//     into the scratch directory, and it is that whole file then.
//   - ```json is what others read: it is JSON.
//   - Nothing is shown by indentation alone, which none of this would see.

// document is a Markdown file at the top (but CHANGELOG.md), in docs or of an example.
type document struct {
	name   string // relative to the top
	text   string
	blocks []block
}

type block struct {
	info    string // after the fence
	text    string
	line    int
	comment string // the HTML comment right before it
}

var htmlComment = regexp.MustCompile(`^<!-- (.*) -->$`)

func parseDocument(name, text string) (document, error) {
	d := document{name: name, text: text}
	var current *block
	comment, blank := "", true
	number := 0
	for line := range strings.Lines(text) {
		number++
		bare := strings.TrimRight(line, "\n")
		switch {
		case current == nil && strings.HasPrefix(bare, "```"):
			current = &block{info: strings.TrimPrefix(bare, "```"), line: number, comment: comment}
		case current != nil && bare == "```":
			d.blocks = append(d.blocks, *current)
			current = nil
		case current != nil:
			current.text += line
		case strings.HasPrefix(line, "    ") && blank:
			return d, fmt.Errorf("%s:%d: nothing checks what is only indented; fence it", name, number)
		}
		blank = bare == ""
		comment = ""
		if m := htmlComment.FindStringSubmatch(bare); m != nil {
			comment = m[1]
		}
	}
	if current != nil {
		return d, fmt.Errorf("%s:%d: a block without an end", name, current.line)
	}
	return d, nil
}

func documents(t *testing.T) []document {
	t.Helper()
	names, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	readmes, err := filepath.Glob("../examples/*/README.md")
	if err != nil || len(readmes) < 2 {
		t.Fatalf("of examples there are %v, %v", readmes, err)
	}
	names = append(names, readmes...)
	var docs []document
	for _, name := range append(names, "../README.md", "../ARCHITECTURE.md", "../CONTRIBUTING.md", "../SECURITY.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		d, err := parseDocument(strings.TrimPrefix(name, "../"), string(text))
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, d)
	}
	if len(docs) < 5 {
		t.Fatalf("only %d documents", len(docs))
	}
	return docs
}

func TestDocsBlocks(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			var err error
			switch b.info {
			case "", "console": // pictures; and TestDocsConsole
			case "sh":
				err = checkMake(b.text, string(makefile))
			case "hcl", "hcl refused":
				err = checkHCL(t, b)
			case "go":
				err = checkExcerpt(b)
			case "json":
				if !json.Valid([]byte(b.text)) {
					err = errors.New("is no JSON")
				}
			default:
				err = fmt.Errorf("nothing checks a block of kind %q", b.info)
			}
			if err != nil {
				t.Errorf("%s:%d: %v", d.name, b.line, err)
			}
		}
	}
}

func checkMake(text, makefile string) error {
	for line := range strings.Lines(text) {
		command, _, _ := strings.Cut(line, "#")
		words := strings.Fields(command)
		if len(words) > 2 && words[0] == "apt-get" && words[1] == "install" && !strings.ContainsAny(command, ";&|$`<>") {
			continue
		}
		if len(words) != 2 || words[0] != "make" {
			return fmt.Errorf("%q is not make TARGET", line)
		}
		if !strings.Contains(makefile, "\n"+words[1]+":") {
			return fmt.Errorf("the Makefile has no target %s", words[1])
		}
	}
	return nil
}

func checkHCL(t *testing.T, b block) error {
	text := b.text
	for _, example := range []string{"firejail", "python"} {
		if !strings.Contains(text, fmt.Sprintf("engine %q", example)) {
			text += fmt.Sprintf("\nengine %q { source = \"/%s\" }\n", example, example)
		}
	}
	_, diags := config.Parse(filepath.Join(t.TempDir(), "config.hcl"), []byte(text), config.EvalInput{
		LookupEnv: func(string) (string, bool) { return "", false }, Home: "/home/me",
		Root: func() (string, error) { return "/src/project", nil }, OS: "linux", Arch: "amd64",
	})
	if refused := b.info == "hcl refused"; refused != diags.HasErrors() {
		return fmt.Errorf("as a configuration: %v", diags)
	}
	formatted, _ := source.Format(b.comment, []byte(b.text))
	if string(formatted) != b.text {
		return fmt.Errorf("sbxhost fmt writes it as\n%s", formatted)
	}
	return nil
}

// checkExcerpt looks for the block's lines, whatever their indentation, one
// after the other in the file that it names.
func checkExcerpt(b block) error {
	whole := false
	if file, ok := strings.CutPrefix(b.comment, "file: "); ok {
		_, b.comment, whole = strings.Cut(file, " from ")
	}
	if !strings.HasSuffix(b.comment, ".go") {
		return fmt.Errorf("no <!-- FILE.go --> before it says where it is from")
	}
	text, err := os.ReadFile(filepath.Join("..", b.comment))
	if err != nil {
		return err
	}
	if whole && string(text) != b.text {
		return fmt.Errorf("is not the whole of %s as it stands", b.comment)
	}
	if !strings.Contains(unindented(string(text)), unindented(b.text)) {
		return fmt.Errorf("is not in %s as it stands", b.comment)
	}
	return nil
}

func unindented(text string) string {
	var b strings.Builder
	b.WriteByte('\n')
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}

func TestDocsConsole(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the documents show sandboxes of bubblewrap")
	}
	requireBwrap(t)
	top, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Glob("../docs/examples/*")
	if err != nil || len(examples) == 0 {
		t.Fatal("no examples", err)
	}
	packages := append(engineBinaries[:], "cmd/sbxhost", "cmd/sbx", "cmd/sbxhost-mcp")
	module := goModule(t, top)
	for _, e := range examples {
		packages = append(packages, strings.TrimPrefix(e, "../"))
	}
	bin := t.TempDir()
	cluster := !testing.Short() && os.Geteuid() == 0
	if cluster {
		packages = append(packages, "integrations/nomad/nomad-driver-sbxhost")
	}
	build(t, bin, packages...)
	for _, d := range documents(t) {
		t.Run(strings.TrimSuffix(strings.ReplaceAll(d.name, "/", "_"), ".md"), func(t *testing.T) {
			t.Parallel()
			for _, need := range needs {
				if strings.HasPrefix(d.name, need.document) && !required(need.what) && exec.Command(need.probe[0], need.probe[1:]...).Run() != nil {
					t.Skip(need.what + " is not here, and SBXHOST_REQUIRE does not list it")
				}
			}
			shell := []string{"bash", "-c"}
			if d.name == "docs/nomad.md" {
				if !cluster {
					t.Skip("only root runs it, and to build an agent takes minutes")
				}
				buildAgent(t, bin)
				// What an agent mounts, and leaves running, ends with these namespaces.
				shell = append([]string{"unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c",
					`mount -t tmpfs tmpfs /srv && busybox ip link set lo up && exec "$@"`, "bash"}, shell...)
			}
			runDocument(t, d, bin, module, shell)
		})
	}
}

// buildAgent builds the agent of Nomad that docs/nomad.md runs.
func buildAgent(t *testing.T, bin string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(bin, "nomad"), "github.com/hashicorp/nomad")
	cmd.Dir = "../tools/nomad"
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=1") // a part of it is in C
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the agent: %v\n%s", err, out)
	}
}

// needs are what documents need beyond what all do.
var needs = []struct {
	document, what string
	probe          []string
}{
	{"docs/nomad.md", "busybox", []string{"busybox", "true"}},
	{"examples/engine-firejail/", "firejail", []string{"firejail", "--version"}},
	{"examples/engine-python/", "python3-grpcio", []string{"/usr/bin/python3", "-c", "import grpc, google.protobuf"}},
}

// goModule is the environment in which modules that use this one are built from
// what is on this machine already.
func goModule(t *testing.T, top string) []string {
	t.Helper()
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(goTool, "env", "GOMODCACHE", "GOCACHE", "GOFLAGS", "CGO_ENABLED")
	cmd.Dir = top
	out, err := cmd.Output()
	values := strings.Split(string(out), "\n")
	if err != nil || len(values) != 5 {
		t.Fatalf("go env: %q, %v", out, err)
	}
	return []string{
		"CLONE=" + top, "GOMODCACHE=" + values[0], "GOCACHE=" + values[1], "GOPROXY=off", "GOSUMDB=off", "GOTOOLCHAIN=local", "GOFLAGS=-buildvcs=false " + values[2], "CGO_ENABLED=" + values[3],
		"PATH=" + filepath.Dir(goTool),
	}
}

// tidy takes the place of `go mod tidy`, which looks into the tests of everything
// that is depended on, and nobody has downloaded those. What it would write is
// that of an example, of which `make tidy-check` says so.
const tidy = `go() {
	if [ "$*" != "mod tidy" ]; then command go "$@"; return; fi
	local like=$CLONE/examples/engine-firejail
	grep -q "^replace github.com/sbxhost/sbxhost => $CLONE$" go.mod || { echo "the module does not use this one"; return 1; }
	sed "s|^module .*|$(grep ^module go.mod)|; s|=> ../..$|=> $CLONE|" $like/go.mod >go.new && mv go.new go.mod && cp $like/go.sum .
}
`

// What make run shows holds.
func TestDemo(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the demonstration is of bubblewrap")
	}
	requireBwrap(t)
	bin := t.TempDir()
	build(t, bin, "cmd/sbxhost")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "demo.sh", filepath.Join(bin, "sbxhost"))
	cmd.Env = append(os.Environ(), "TMPDIR=/tmp")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"$ sbxhost exec -- cat notes.txt\na file of the project\n",
		"ls'\nconfig.hcl\nmade.txt\nnotes.txt\n",
		".ssh/id_ed25519: No such file or directory\nsbxhost: hint: ",
		"\ntoken: \n",
		"'/etc/backdoor': Read-only file system\n",
		"config.hcl: Read-only file system\nsbxhost: hint: ",
		"(exit status 7)\n",
		"its time limit (-timeout)\n(exit status 124)\n",
		"(exit status 127)\n",
		"decision    sandboxed, by rule engine-isolates\n",
	} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("it does not show %q", want)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}

// step is a command of a document and what it is to write.
type step struct {
	line    int
	command string
	want    string
}

func steps(d document) (list []step) {
	for _, b := range d.blocks {
		if b.info != "console" {
			continue
		}
		for i, line := range strings.SplitAfter(strings.TrimSuffix(b.text, "\n"), "\n") {
			line = strings.TrimSuffix(line, "\n")
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				list = append(list, step{line: b.line + 1 + i, command: command})
			} else if len(list) > 0 {
				list[len(list)-1].want += line + "\n"
			}
		}
	}
	return list
}

func runDocument(t *testing.T, d document, bin string, module, shell []string) {
	list := steps(d)
	if len(list) == 0 {
		return
	}
	home := t.TempDir()
	dir := filepath.Join(home, "src")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if example := filepath.Dir(d.name); strings.HasPrefix(example, "examples/") {
		// What it needs of this module's tree is what its go.mod says, and that alone.
		if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", example))); err != nil {
			t.Fatal(err)
		}
		if mod, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil {
			mod = bytes.Replace(mod, []byte("=> ../..\n"), []byte(strings.Replace(module[0], "CLONE=", "=> ", 1)+"\n"), 1)
			if err := os.WriteFile(filepath.Join(dir, "go.mod"), mod, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	const mark = "\x01status "
	var script strings.Builder
	script.WriteString("exec 2>&1\n" + tidy)
	next := 0
	for _, b := range d.blocks {
		if name, ok := strings.CutPrefix(b.comment, "file: "); ok {
			name, _, _ = strings.Cut(name, " from ")
			// Quoted, so that bash leaves it as it is.
			fmt.Fprintf(&script, "cat >%s <<'END OF FILE'\n%sEND OF FILE\n", name, b.text)
		}
		for ; next < len(list) && b.info == "console" && list[next].line > b.line && list[next].line <= b.line+strings.Count(b.text, "\n"); next++ {
			fmt.Fprintf(&script, "%s\ns=$?; printf '%s%%d\\n' $s; (exit $s)\n", list[next].command, mark)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell[0], append(shell[1:], script.String())...)
	cmd.Dir = dir
	cmd.Env = append(slices.Clone(module), "HOME="+home, "LANG=C.UTF-8", "TMPDIR=/tmp", "TERM=dumb", "SBX_SERVE=off")
	for i, entry := range cmd.Env {
		if dir, ok := strings.CutPrefix(entry, "PATH="); ok {
			cmd.Env[i] = "PATH=" + bin + ":" + dir + ":/usr/local/bin:/usr/bin:/bin"
		}
	}
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("%s takes too long; so far:\n%s", d.name, out)
	}
	_ = err // each command's own status is in the output
	for i, s := range list {
		got, rest, ok := bytes.Cut(out, []byte(mark))
		if !ok {
			t.Fatalf("%s:%d: %q did not end: %s", d.name, s.line, s.command, got)
		}
		status, rest, _ := bytes.Cut(rest, []byte("\n"))
		out = rest
		if !matches(s.want, string(got)) {
			t.Errorf("%s:%d: $ %s\ngot:\n%swant:\n%s", d.name, s.line, s.command, got, s.want)
		}
		expected := i+1 < len(list) && list[i+1].command == "echo $?"
		if string(status) != "0" && !expected {
			t.Errorf("%s:%d: $ %s\nexits with %s, of which the document says nothing", d.name, s.line, s.command, status)
		}
	}
}

// The documents say which Go is needed, as go.mod does.
func TestDocsNameTheGoThatIsNeeded(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	needed := regexp.MustCompile(`(?m)^go (\d+\.\d+)(\.\d+)?$`).FindSubmatch(mod)
	for name, wants := range map[string][]string{
		"../README.md": {"%s or later", "fetches %s by itself", "`tar -xzf go%s.0.linux-"}, "../CONTRIBUTING.md": {"Go %s or later"},
	} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if want = fmt.Sprintf(want, needed[1]); !bytes.Contains(text, []byte(want)) {
				t.Errorf("%s does not say %q", name, want)
			}
		}
	}
}

// matches compares output with what a document shows.
func matches(want, got string) bool {
	pattern := regexp.QuoteMeta(want)
	pattern = regexp.MustCompile(`(?m)^\\\.\\\.\\\.\n`).ReplaceAllString(pattern, `(?s:.*)`)
	pattern = strings.ReplaceAll(pattern, `\.\.\.`, `.*`)
	return regexp.MustCompile(`\A` + pattern + `\z`).MatchString(got)
}

func TestDocsConventions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		want, got string
		ok        bool
	}{
		{"a\n", "a\n", true},
		{"a\n", "a\nb\n", false},
		{"a\n...\n", "a\nb\nc\n", true},
		{"...\nb\n", "b\n", true},
		{"x ... z\n", "x y z\n", true},
		{"x ... z\n", "x\nz\n", false},
		{"", "", true},
		{"", "a\n", false},
	} {
		if got := matches(tt.want, tt.got); got != tt.ok {
			t.Errorf("matches(%q, %q) is %v", tt.want, tt.got, got)
		}
	}
	d, err := parseDocument("x.md", "<!-- file: a -->\n```hcl\na = 1\n```\n\n```console\n$ one\nout\n$ two\n```\n")
	if err != nil || len(d.blocks) != 2 || d.blocks[0].comment != "file: a" || d.blocks[1].comment != "" {
		t.Fatalf("%+v, %v", d, err)
	}
	if list := steps(d); len(list) != 2 || list[0] != (step{7, "one", "out\n"}) || list[1] != (step{9, "two", ""}) {
		t.Errorf("%+v", list)
	}
	if _, err := parseDocument("x.md", "```sh\n"); err == nil {
		t.Error("a block without an end is none")
	}
	if checkMake("make nothing\n", "all:\n") == nil || checkMake("rm -rf x\n", "\nx:\n") == nil {
		t.Error("anything is a target")
	}
	if checkMake("apt-get install a b\n", "") != nil || checkMake("apt-get install a; rm x\n", "") == nil {
		t.Error("apt-get install")
	}
	if _, err := parseDocument("x.md", "a\n\n    b\n"); err == nil {
		t.Error("what is indented is passed over")
	}
	if checkExcerpt(block{comment: "file: main.go from docs/examples/inject/main.go", text: "import (\n"}) == nil {
		t.Error("a part is the whole")
	}
	if checkExcerpt(block{text: "no such line\n", comment: "docs/examples/embed/main.go"}) == nil {
		t.Error("anything is an excerpt")
	}
}
