package test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var updateDocs = flag.Bool("update-docs", false, "write the fields of types into the comments of their aliases in package host")

// A type of package host that is an alias of an internal one has its fields in its comment, and one that
// embeds an internal one has the methods of that: go doc shows no others. They are copied from there.
func TestAliasesShowTheirFields(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../host/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_other.go") {
			continue
		}
		old, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := old
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, old, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range slices.Backward(file.Decls) { // so that what changes is behind what comes next
			types, ok := decl.(*ast.GenDecl)
			if !ok || types.Tok != token.TYPE {
				continue
			}
			for _, spec := range slices.Backward(types.Specs) {
				alias := spec.(*ast.TypeSpec)
				of, _ := alias.Type.(*ast.SelectorExpr)
				embedded := false
				if form, ok := alias.Type.(*ast.StructType); ok && alias.Name.IsExported() {
					of, embedded = embeddedIn(form), true
				}
				if of == nil || !embedded && !alias.Assign.IsValid() {
					continue
				}
				form, methods := fieldsOf(t, file, of)
				if embedded {
					form = ""
					methods = slices.DeleteFunc(methods, func(m string) bool { return hasMethod(text, alias.Name.Name, m) })
				}
				fields := strings.TrimPrefix(form+strings.Join(methods, ""), "\n")
				if fields == "" {
					continue
				}
				found++
				doc := alias.Doc
				if doc == nil && !types.Lparen.IsValid() {
					doc = types.Doc
				}
				if doc == nil {
					t.Errorf("%s: host.%s has no comment of its own", name, alias.Name)
					continue
				}
				indent := strings.Repeat("\t", set.Position(doc.Pos()).Column-1)
				var comment strings.Builder
				for _, line := range doc.List {
					if strings.HasPrefix(line.Text, "//\ttype ") || embedded && strings.HasPrefix(line.Text, "//\tfunc ") {
						break
					}
					comment.WriteString(line.Text + "\n" + indent)
				}
				written := strings.TrimSuffix(comment.String(), "//\n"+indent) + "//\n" + indent
				for line := range strings.Lines(regexp.MustCompile(`(?m)^(type |func \(\w+ \*?)`+of.Sel.Name+`\b`).ReplaceAllString(fields, "${1}"+alias.Name.Name)) {
					written += strings.TrimRight("//\t"+line, "\t\n") + "\n" + indent
				}
				begin, end := set.Position(doc.Pos()).Offset, set.Position(doc.End()).Offset
				text = slices.Concat(text[:begin], []byte(strings.TrimSuffix(written, "\n"+indent)), text[end:])
			}
		}
		if bytes.Equal(text, old) {
			continue
		}
		if !*updateDocs {
			t.Errorf("%s: the comment of an alias has other fields than the type: go test ./test -run TestAliasesShowTheirFields -update-docs", name)
		} else if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if found < 10 {
		t.Errorf("found %d aliases of structs", found)
	}
}

// embeddedIn is the type of another package that a struct embeds; nil for none.
func embeddedIn(form *ast.StructType) *ast.SelectorExpr {
	for _, field := range form.Fields.List {
		if pointer, ok := field.Type.(*ast.StarExpr); ok && len(field.Names) == 0 {
			of, _ := pointer.X.(*ast.SelectorExpr)
			return of
		}
	}
	return nil
}

// hasMethod reports whether a file declares, for a type of its own, a method of the same name.
func hasMethod(file []byte, name, method string) bool {
	method = regexp.MustCompile(`\) (\w+)\(`).FindStringSubmatch(method)[1]
	return regexp.MustCompile(`(?m)^func \(\w+ \*?` + name + `\) ` + method + `\(`).Match(file)
}

// fieldsOf is the declaration of a struct of another package of this module, without what is its own, and
// its methods; empty for another type.
func fieldsOf(t *testing.T, file *ast.File, of *ast.SelectorExpr) (form string, methods []string) {
	t.Helper()
	dir := ""
	for _, imported := range file.Imports {
		path, ours := strings.CutPrefix(strings.Trim(imported.Path.Value, `"`), module+"/internal/")
		if ours && filepath.Base(path) == of.X.(*ast.Ident).Name {
			dir = filepath.Join("../internal", path)
		}
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if dir == "" || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "other.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, name, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		source := func(from, to token.Pos) string {
			return string(text[set.Position(from).Offset:set.Position(to).Offset])
		}
		for _, decl := range parsed.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv != nil && decl.Name.IsExported() && regexp.MustCompile(`\b`+of.Sel.Name+`$`).MatchString(source(decl.Recv.List[0].Pos(), decl.Recv.List[0].End())) {
					methods = append(methods, "\n"+source(decl.Pos(), decl.Type.End()))
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					spec, ok := spec.(*ast.TypeSpec)
					if !ok || spec.Name.Name != of.Sel.Name {
						continue
					}
					fields, ok := spec.Type.(*ast.StructType)
					if !ok {
						return "", nil
					}
					form = "type " + source(spec.Pos(), spec.End())
					for _, field := range fields.Fields.List {
						if len(field.Names) == 0 || field.Names[0].IsExported() {
							continue
						}
						from, to := field.Pos(), field.End()
						if field.Doc != nil {
							from = field.Doc.Pos()
						}
						if field.Comment != nil {
							to = field.Comment.End()
						}
						form = strings.Replace(form, source(from, to), "", 1)
					}
					form = regexp.MustCompile(`(?m)^\t+\n`).ReplaceAllString(form, "")
					form = strings.ReplaceAll(form, "\n\n}", "\n}")
					form = regexp.MustCompile(`struct \{\s*\}$`).ReplaceAllString(form, "struct{ ... }")
				}
			}
		}
	}
	if form == "" {
		return "", nil
	}
	return form, methods
}
