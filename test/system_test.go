package test

import (
	"go/ast"
	gobuild "go/build"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestImportedHostIsOne holds package host to one API: a program that imports it compiles for
// systems on which no command runs, too.
func TestImportedHostIsOne(t *testing.T) {
	t.Parallel()
	linux, windows := exportedBy(t, "linux"), exportedBy(t, "windows")
	if len(linux) < 50 {
		t.Errorf("only %d functions and types were found", len(linux))
	}
	for _, name := range append(linux, windows...) {
		if !slices.Contains(linux, name) || !slices.Contains(windows, name) {
			t.Errorf("%s is not there on each system: host/system_other.go has what Windows gets", name)
		}
	}
}

// TestImportsOnWindows finds what keeps config and host from compiling there, as far as imports tell:
// to build it takes minutes, and is a part of make cross.
func TestImportsOnWindows(t *testing.T) {
	t.Parallel()
	found := false
	for _, pkg := range list(t, "windows", "-deps", "./config", "./host") {
		if strings.HasPrefix(pkg.ImportPath, module+"/") && slices.Contains(pkg.Imports, "golang.org/x/sys/unix") {
			t.Errorf("%s imports golang.org/x/sys/unix on Windows: a file of it is for //go:build unix", pkg.ImportPath)
		}
		found = found || pkg.ImportPath == module+"/host"
	}
	if !found {
		t.Error("package host was not looked at")
	}
}

// exportedBy lists the functions, methods and types of package host.
func exportedBy(t *testing.T, goos string) (list []string) {
	t.Helper()
	system := gobuild.Default
	system.GOOS = goos
	files, err := filepath.Glob("../host/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if matches, err := system.MatchFile("../host", filepath.Base(name)); err != nil || !matches || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.FileExports(file)
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					of := d.Recv.List[0].Type
					if star, ok := of.(*ast.StarExpr); ok {
						of = star.X
					}
					if !of.(*ast.Ident).IsExported() {
						continue
					}
					name = of.(*ast.Ident).Name + "." + name
				}
				list = append(list, name)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok {
						list = append(list, spec.Name.Name)
					}
				}
			}
		}
	}
	return list
}
