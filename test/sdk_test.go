package test

import (
	"bytes"
	"go/ast"
	gobuild "go/build"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sdk are the packages of which an engine's author reads the documentation.
var sdk = []string{"shared", "shared/cmdengine", "shared/enginetest"}

// Every exported name says what it promises: each constant, variable, function, type,
// method and field.
func TestSDKIsDocumented(t *testing.T) {
	t.Parallel()
	for _, dir := range sdk {
		if n := undocumented(t, filepath.Join("..", dir), func(name string) {
			t.Errorf("%s: %s has no documentation", dir, name)
		}); n < 10 {
			t.Errorf("%s: only %d names were seen", dir, n)
		}
	}
}

func TestUndocumentedNamesAreFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source := `// Package p is one.
package p

const C = 1

// Grouped is told.
const (
	D = 1
	E = 2 // told
)

// T is told.
type T struct {
	// A and B are told.
	A, B int
	G    int

	F int // told
	// N is about M.
	N int
	NoM int
	private int
}

func (T) Method() {}

// I is told.
type I interface{ Do() }

func F() {}

func private() {}
`
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	var got []string
	undocumented(t, dir, func(name string) { got = append(got, name) })
	slices.Sort(got)
	if want := []string{"C", "D", "F", "I.Do", "T.G", "T.Method", "T.NoM"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Nothing of HCL, gRPC or protobuf has to be known to read it.
func TestSDKShowsNoWire(t *testing.T) {
	t.Parallel()
	foreign := regexp.MustCompile(`\b(grpc|plugin|hclog|pb|enginepb|proto|codes|status|hcl|cty)\.`)
	for _, dir := range sdk {
		_, fset, files := parsePackage(t, filepath.Join("..", dir))
		seen := 0
		for _, f := range files {
			ast.FileExports(f)
			for _, decl := range f.Decls {
				var name string
				switch d := decl.(type) {
				case *ast.FuncDecl:
					name, d.Body = d.Name.Name, nil
					if d.Recv != nil {
						name = strings.TrimPrefix(sourceOf(t, fset, d.Recv.List[0].Type), "*")
					}
				case *ast.GenDecl:
					if d.Tok == token.IMPORT || len(d.Specs) == 0 {
						continue
					}
					switch spec := d.Specs[0].(type) {
					case *ast.TypeSpec:
						name = spec.Name.Name
					case *ast.ValueSpec:
						name = spec.Names[0].Name
					}
				}
				if !ast.IsExported(name) {
					continue // a method of what is not
				}
				seen++
				if text := sourceOf(t, fset, decl); foreign.MatchString(text) {
					t.Errorf("%s: %s shows %s: %s", dir, name, foreign.FindString(text), text)
				}
			}
		}
		if seen < 5 {
			t.Errorf("%s: only %d declarations were seen", dir, seen)
		}
	}
}

func parsePackage(t *testing.T, dir string) (*gobuild.Package, *token.FileSet, []*ast.File) {
	t.Helper()
	pkg, err := gobuild.ImportDir(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range slices.Concat(pkg.GoFiles, pkg.CgoFiles) {
		f, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return pkg, fset, files
}

// sourceOf is a declaration as it is written, without its comments.
func sourceOf(t *testing.T, fset *token.FileSet, node ast.Node) string {
	t.Helper()
	var text strings.Builder
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CommentGroup:
			return false
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				text.WriteString(x.Name + "." + n.Sel.Name + " ")
				return false
			}
		case *ast.Ident:
			text.WriteString(n.Name + " ")
		}
		return true
	})
	return strings.TrimSpace(text.String())
}

// undocumented tells the exported names of a package that have no comment, and gives
// the number of all.
func undocumented(t *testing.T, dir string, tell func(name string)) (n int) {
	t.Helper()
	_, fset, files := parsePackage(t, dir)
	p, err := doc.NewFromFiles(fset, files, "p/"+filepath.Base(dir))
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, docs ...string) {
		if n++; strings.TrimSpace(strings.Join(docs, "")) == "" {
			tell(name)
		}
	}
	if p.Doc == "" {
		tell("the package")
	}
	values := func(list []*doc.Value) {
		for _, v := range list {
			for _, s := range v.Decl.Specs {
				s := s.(*ast.ValueSpec)
				text := s.Doc.Text() + s.Comment.Text()
				if !v.Decl.Lparen.IsValid() {
					text += v.Doc
				}
				for _, name := range s.Names {
					if name.IsExported() {
						check(name.Name, text)
					}
				}
			}
		}
	}
	funcs := func(prefix string, list []*doc.Func) {
		for _, f := range list {
			check(prefix+f.Name, f.Doc)
		}
	}
	values(p.Consts)
	values(p.Vars)
	funcs("", p.Funcs)
	for _, typ := range p.Types {
		check(typ.Name, typ.Doc)
		values(typ.Consts)
		values(typ.Vars)
		funcs("", typ.Funcs)
		funcs(typ.Name+".", typ.Methods)
		for _, s := range typ.Decl.Specs {
			var members *ast.FieldList
			switch x := s.(*ast.TypeSpec).Type.(type) {
			case *ast.StructType:
				members = x.Fields
			case *ast.InterfaceType:
				members = x.Methods
			default:
				continue
			}
			above := "" // a comment may name the members that follow, too
			for _, member := range members.List {
				text := member.Doc.Text() + member.Comment.Text()
				if text != "" {
					above = text
				}
				for _, name := range member.Names {
					if !name.IsExported() {
						continue
					}
					if text == "" && regexp.MustCompile(`\b`+name.Name+`\b`).MatchString(above) {
						check(typ.Name+"."+name.Name, above)
						continue
					}
					check(typ.Name+"."+name.Name, text)
				}
			}
		}
	}
	return n
}

// Whoever writes an engine in another language reads docs/protocol.md and
// engine.proto, and nothing in Go.
func TestProtocolIsDocumented(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	proto, page := read("../shared/enginepb/engine.proto"), read("../docs/protocol.md")
	entry := regexp.MustCompile(`^\s*(message|enum|oneof|rpc|service) |= [0-9]+;`)
	above, n := "", 0
	for line := range strings.Lines(proto) {
		if entry.MatchString(line) {
			if n++; !strings.Contains(line, "//") && !strings.HasPrefix(strings.TrimSpace(above), "//") {
				t.Errorf("engine.proto says nothing about %q", strings.TrimSpace(line))
			}
		}
		above = line
	}
	if n < 150 {
		t.Errorf("only %d entries of engine.proto were seen", n)
	}
	constants := regexp.MustCompile(`(?m)^\t(?:Feature|Event)\w+ +(?:Feature|EventKind) *= "([^"]+)"`)
	names := constants.FindAllStringSubmatch(read("../shared/spec.go")+read("../shared/result.go"), -1)
	if len(names) < 25 {
		t.Errorf("only %d features and kinds of events were seen", len(names))
	}
	for _, name := range names {
		if !strings.Contains(page, "`"+name[1]+"`") && !strings.Contains(proto, name[1]) {
			t.Errorf("neither docs/protocol.md nor engine.proto names %q", name[1])
		}
	}
	for _, kind := range regexp.MustCompile(`KIND_[A-Z_]+ = [1-9]`).FindAllString(proto, -1) {
		name, _, _ := strings.Cut(kind, " ")
		// Hosts give that one, and mounts are not errors.
		if name != "KIND_ENGINE_LOST" && !strings.HasPrefix(name, "KIND_READ") && name != "KIND_OVERLAY" && name != "KIND_TMPFS" && !strings.Contains(page, name) {
			t.Errorf("docs/protocol.md does not say when to give %s", name)
		}
	}
}

// docs/engines.md says what an engine weighs, and it is so.
func TestSDKWeight(t *testing.T) {
	text, err := os.ReadFile("../docs/engines.md")
	if err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`With Go ([0-9.]+) it has ([0-9.]+) MB, and allocates (half a|[0-9.]+) MB before .main.`).FindSubmatch(text)
	if said == nil {
		t.Fatal("docs/engines.md does not say what the SDK weighs")
	}
	if runtime.Version() != "go"+string(said[1]) && !strings.HasPrefix(runtime.Version(), "go"+string(said[1])+".") {
		t.Skipf("it was measured with Go %s, and this is %s", said[1], runtime.Version())
	}
	engine := filepath.Join(t.TempDir(), "engine")
	link := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w", "-o", engine, "./docs/examples/sbxhost-engine-nice")
	link.Dir, link.Env = "..", append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := link.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	info, err := os.Stat(engine)
	if err != nil {
		t.Fatal(err)
	}
	number := func(text []byte) float64 {
		f, err := strconv.ParseFloat(strings.Replace(string(text), "half a", "0.5", 1), 64)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if size := float64(info.Size()) / 1e6; size > number(said[2])+0.15 || size < number(said[2])-0.15 {
		t.Errorf("the file has %.2f MB, and docs/engines.md says %s", size, said[2])
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return
	}
	if allocated := initAllocates(t, engine) / 1e6; allocated > number(said[3])*1.2 || allocated < number(said[3])*0.8 {
		t.Errorf("init functions allocate %.2f MB, and docs/engines.md says %s", allocated, said[3])
	}
}

// What a program gets by importing package host: none of it grows without a reason, which is said
// where the number is.
func TestHostWeight(t *testing.T) {
	deps := list(t, "linux", "-tags", "grpcnotrace", "-deps", "./host") // as the program is linked below
	modules := map[string]bool{}
	for _, pkg := range deps {
		if pkg.Module != nil {
			modules[pkg.Module.Path] = true
		}
	}
	main, program := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "importer")
	if err := os.WriteFile(main, []byte("package main\n\nimport _ \""+module+"/host\"\n\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	link := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w", "-o", program, main)
	link.Dir, link.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := link.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	megabytes, allocated, ms := float64(info.Size())/1e6, 0.0, 0.0
	for _, line := range inits(t, program) {
		ms, allocated = ms+line.ms, allocated+line.allocated
	}
	t.Logf("%d modules, %d packages, %.1f MB, %.1f ms before main with %.2f MB", len(modules), len(deps), megabytes, ms, allocated/1e6)
	if runtime.GOOS+"/"+runtime.GOARCH != "linux/amd64" {
		return
	}
	for what, n := range map[string][2]float64{
		"modules": {float64(len(modules)), 15}, "packages": {float64(len(deps)), 384}, "MB": {megabytes, 7.75}, "MB allocated before main": {allocated / 1e6, 0.55},
	} {
		if n[0] > n[1] {
			t.Errorf("%s: %.1f are more than %v", what, n[0], n[1])
		}
	}
}

// initAllocates sums up what a program's init functions allocate, in bytes.
func initAllocates(t *testing.T, program string) (allocated float64) {
	t.Helper()
	for _, line := range inits(t, program, "-version") {
		allocated += line.allocated
	}
	return allocated
}

// inits are what a program's init functions take.
func inits(t *testing.T, program string, args ...string) (list []struct{ ms, allocated float64 }) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = []string{"GODEBUG=inittrace=1"}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	lines := regexp.MustCompile(`(?m)^init .*, ([0-9.]+) ms clock, ([0-9]+) bytes`).FindAllStringSubmatch(stderr.String(), -1)
	if len(lines) < 10 {
		t.Fatalf("the trace of init functions is %q", &stderr)
	}
	for _, line := range lines {
		ms, err1 := strconv.ParseFloat(line[1], 64)
		size, err2 := strconv.ParseFloat(line[2], 64)
		if err1 != nil || err2 != nil {
			t.Fatalf("%q", line)
		}
		list = append(list, struct{ ms, allocated float64 }{ms, size})
	}
	return list
}
