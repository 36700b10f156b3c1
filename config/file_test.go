package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/internal/source"
	"github.com/sbxhost/sbxhost/shared"
)

func parse(t *testing.T, src string) *File {
	t.Helper()
	f, diags := Parse("/etc/sbx/test.hcl", []byte(src), testInput())
	if diags.HasErrors() {
		t.Fatal(render(t, diags))
	}
	return f
}

// One copy is embedded, since a parent directory cannot be; the other is what
// a reader of the repository finds first.
func TestSampleIsTheTopLevelFile(t *testing.T) {
	t.Parallel()
	top, err := os.ReadFile("../config.hcl")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(top, Sample()) {
		t.Error("config/sample.hcl and config.hcl differ")
	}
}

func TestSampleIsValidAnywhere(t *testing.T) {
	t.Parallel()
	for _, input := range []EvalInput{testInput(), InputFor(os.LookupEnv, t.TempDir()), {Home: "/h", OS: "darwin", Arch: "arm64"}} {
		f, diags := Parse("/x/config.hcl", Sample(), input)
		if len(diags) > 0 {
			t.Fatal(render(t, diags))
		}
		opts, _ := f.Options()
		if opts.DefaultSandbox != "fast" || len(opts.Sandboxes) != 3 || !opts.Workspace.Toolchains {
			t.Errorf("unexpected options %+v", opts)
		}
	}
}

func TestBuiltinDefault(t *testing.T) {
	t.Parallel()
	f, diags := Load("", EvalInput{})
	if len(diags) > 0 {
		t.Fatal(render(t, diags))
	}
	opts, _ := f.Options()
	def, ok := opts.Sandboxes["default"]
	if !ok || opts.DefaultSandbox != "default" || def.Engine != "auto" || def.Network.Host || def.Network.Names != nil || f.Path() != "" || opts.Protected != nil {
		t.Errorf("unexpected options %+v", opts)
	}
}

func TestLoadRefusesWhatIsNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, fifo, "/dev/null", filepath.Join(dir, "absent")} {
		f, diags := Load(path, EvalInput{})
		if !diags.HasErrors() || diags[0].Subject == nil {
			t.Errorf("%s was accepted", path)
		}
		if _, diags := f.Options(); !diags.HasErrors() {
			t.Errorf("%s gave options", path)
		}
	}
	path := filepath.Join(dir, "long.hcl")
	text := bytes.Repeat([]byte("# long\n"), source.MaxSize/7+1)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, diags := Load(path, EvalInput{}); !diags.HasErrors() || !strings.Contains(diags[0].Detail, "has more than 1048576 bytes") {
		t.Errorf("a long file: %v", diags)
	}
	if _, diags := Parse(path, text, EvalInput{}); !diags.HasErrors() || diags[0].Summary != "File too long" {
		t.Errorf("a long text: %v", diags)
	}
}

// Without the bound, each of these ends the process once the file is as long as
// it may be: the parser recursion
// runs out of stack.
func TestNestingIsBounded(t *testing.T) {
	t.Parallel()
	for _, p := range [][3]string{
		{"[", "", "]"}, {"(", "1", ")"}, {"{a=", "1", "}"}, {"!", "true", ""}, {"-", "1", ""}, {"1+", "1", ""},
		{"true?1:", "1", ""}, {"\"${", "1", "}\""}, {"upper(", "1", ")"}, {"%{if true}", "", "%{endif}"},
		{"a[", "0", "]"}, {"[for x in ", "[]", ": x]"}, {"1==", "1", ""}, {"\")${[", "1", "]}\""},
	} {
		n := 1 << 16 / (len(p[0]) + len(p[2]))
		expr := strings.Repeat(p[0], n) + p[1] + strings.Repeat(p[2], n)
		if strings.HasPrefix(expr, "%") {
			expr = `"` + expr + `"`
		}
		src := "a = " + expr + "\n"
		if _, diags := Parse("/x.hcl", []byte(src), EvalInput{}); !diags.HasErrors() || diags[0].Summary != "Too many brackets" {
			t.Errorf("%q nested %d deep: %.100s", p[0], n, diags.Error())
		}
	}
	blocks := strings.Repeat("a {\n", 4000) + strings.Repeat("}\n", 4000)
	if _, diags := Parse("/x.hcl", []byte(blocks), EvalInput{}); !diags.HasErrors() || diags[0].Summary != "Too many brackets" {
		t.Error("nested blocks were accepted")
	}
}

func TestLongFilesAreNotDeepOnes(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 300 {
		fmt.Fprintf(&b, "sandbox \"s%d\" {\n  network = !(true && false)\n  env = { A = \"${1 + 2}\", B = \"-\" }\n}\n", i)
	}
	if _, diags := Parse("/x.hcl", []byte(b.String()), EvalInput{}); diags.HasErrors() {
		t.Error(render(t, diags[:1]))
	}
}

// As in Terraform; what must be set is missing then.
func TestNullIsNotSet(t *testing.T) {
	t.Parallel()
	const null = `sandbox "s" {
  engine     = null
  network    = null
  deny_paths = env.MISSING
  env        = null
  limits {
    timeout = null
    memory  = env.MISSING
  }
}
`
	f := parse(t, null)
	opts, _ := f.Options()
	if want, got := parse(t, "sandbox \"s\" {\n  limits {}\n}\n").options.Sandboxes["s"], opts.Sandboxes["s"]; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if _, diags := Parse("/x/config.hcl", []byte("sandbox \"s\" {}\naudit {\n  path = null\n}\n"), testInput()); !strings.Contains(diags.Error(), "An audit block needs path") {
		t.Errorf("an audit block without a path: %v", diags)
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	f := parse(t, "sandbox \"fast\" {}\nsandbox \"full\" {}\n")
	for name, want := range map[string]string{
		"fast": "",
		"fats": `there is no sandbox "fats". Did you mean "fast"?`,
		"zzz":  `there is no sandbox "zzz". The file defines "fast" and "full"`,
		"":     `no default_sandbox in /etc/sbx/test.hcl, and several to choose from: name one of "fast" and "full"`,
	} {
		got, err := f.Choose(name)
		if want == "" && (got != name || err != nil) || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("Choose(%q) = %q, %v", name, got, err)
		}
	}
	if got, err := parse(t, "sandbox \"only\" {}\n").Choose(""); got != "only" || err != nil {
		t.Errorf("the only sandbox: %q, %v", got, err)
	}
}

const located = `workspace {
  root = "/src"
}
sandbox "a" {
  engine  = "bwrap"
  network = true
  bind_paths = [
    "/x",
    { host = "/y", optional = true },
  ]
  env = { CI = "1" }
  limits {
    memory = "1GiB"
  }
  config {
    image = "x"
    inner {
      y = [1]
    }
  }
}
`

func TestLocate(t *testing.T) {
	t.Parallel()
	f := parse(t, located)
	for attribute, want := range map[string]string{
		"network":              "true",
		"bind_paths":           "[\n    \"/x\",\n    { host = \"/y\", optional = true },\n  ]",
		"bind_paths[0]":        `"/x"`,
		"bind_paths[1].host":   `"/y"`,
		"bind_paths[1].absent": `{ host = "/y", optional = true }`,
		"bind_paths[9]":        "[\n    \"/x\",\n    { host = \"/y\", optional = true },\n  ]",
		"env.CI":               `"1"`,
		"env CI":               `"1"`,
		"limits.memory":        `"1GiB"`,
		"limits.pids":          "limits",
		"config.image":         `"x"`,
		"config.inner.y[0]":    "1",
		"config.inner.z":       "inner",
		"workspace":            "workspace",
		"workspace.root":       `"/src"`,
		"filesystem":           `sandbox "a"`,
		"":                     `sandbox "a"`,
	} {
		at, ok := f.Locate("a", attribute)
		if got := located[at.Start.Byte:at.End.Byte]; !ok || got != want {
			t.Errorf("Locate(%q) is %q, want %q", attribute, got, want)
		}
	}
	if _, ok := f.Locate("b", "network"); ok {
		t.Error("an unknown sandbox was located")
	}
}

func TestDiagnose(t *testing.T) {
	t.Parallel()
	f := parse(t, located)
	memory := &shared.Error{Kind: shared.ErrUnsupported, Attribute: "limits.memory", Message: "no cgroup is ours", Hint: `set enforce = "best_effort"`}
	bind := &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "bind_paths[0]", Message: "/x does not exist"}
	var b strings.Builder
	for _, err := range []error{
		fmt.Errorf("opening: %w", memory),
		errors.Join(bind, errors.Join(memory, errors.New("something else"))),
		fmt.Errorf("%w: %w", shared.ErrBroken, bind),
		&shared.Error{Kind: shared.ErrUnavailable, Message: "no bwrap in /usr/bin", Hint: "install bubblewrap"},
	} {
		b.WriteString(render(t, f.Diagnose("a", err)) + "--\n")
	}
	b.WriteString(render(t, f.Diagnose("nosuch", bind)))
	golden(t, "testdata/diagnose.golden", []byte(b.String()))
	if diags := f.Diagnose("a", nil); len(diags) != 0 {
		t.Error("no error gave", diags)
	}
}

// The name of a file forges no line.
func TestWriteNameWithLines(t *testing.T) {
	t.Parallel()
	_, diags := Parse("/x\r\nError: forged\n.hcl", []byte("nosuch {}\n"), EvalInput{})
	var text strings.Builder
	if err := source.Write(&text, diags, false, 0); err != nil || len(diags) == 0 {
		t.Fatal(err, diags)
	}
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "Error: forged") || strings.Contains(line, "\r") {
			t.Errorf("%q", text.String())
		}
	}
}

func TestWriteColorAndWidth(t *testing.T) {
	t.Parallel()
	_, diags := Parse("/x.hcl", []byte("sandbox \"a\" {\n  workdir = \""+strings.Repeat("é", 600)+"\"\n}\n"), EvalInput{})
	var plain, color strings.Builder
	if err := errors.Join(source.Write(&plain, diags, false, 60), source.Write(&color, diags, true, 60)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(plain.String(), "\x1b") || !strings.Contains(color.String(), "\x1b[31mError\x1b[0m") {
		t.Error("colour is not where it belongs")
	}
	for line := range strings.Lines(plain.String()) {
		if n := len([]rune(line)); strings.HasPrefix(line, "   2: ") {
			t.Errorf("the snippet has %d columns", n)
		}
	}
}

// A file that only declares engines is good for what asks engines, and has no sandbox to choose.
func TestEnginesAlone(t *testing.T) {
	t.Parallel()
	f, diags := Parse("/project/sbxhost.hcl", []byte("engine \"mine\" {\n  source = \"/opt/mine\"\n}\n"), EvalInput{})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	if _, err := f.Choose(""); err == nil || !strings.Contains(err.Error(), "defines no sandbox") {
		t.Error(err)
	}
}
