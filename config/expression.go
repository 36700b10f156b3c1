package config

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/sbxhost/sbxhost/internal/source"
)

// EvalInput is all that the expressions of a file can see of the machine. The zero value has no
// variables and no home.
type EvalInput struct {
	// LookupEnv returns env.NAME.
	LookupEnv func(name string) (string, bool)
	// Home is `home` and replaces ~. Empty makes both an error.
	Home string
	// Root returns workspace.root if the file does not set it. Only an expression that uses it
	// calls Root.
	Root func() (string, error)
	// OS and Arch are platform.os and platform.arch, with Go's names.
	OS, Arch string
}

// InputFor returns the EvalInput of this machine for a user's environment and current directory.
func InputFor(lookupEnv func(string) (string, bool), dir string) EvalInput {
	in := EvalInput{LookupEnv: lookupEnv, OS: runtime.GOOS, Arch: runtime.GOARCH}
	if home, _ := lookupEnv("HOME"); filepath.IsAbs(home) {
		in.Home = home
	}
	in.Root = func() (string, error) { return gitTop(dir) }
	return in
}

// evaluator evaluates the expressions of one file. It looks up only the values that they use.
type evaluator struct {
	input EvalInput
	root  string // workspace.root if the file sets it
}

func roots() []string { return []string{"env", "home", "platform", "workspace"} }

func (e *evaluator) value(expr hcl.Expression) (cty.Value, hcl.Diagnostics) {
	ctx := &hcl.EvalContext{Variables: map[string]cty.Value{}, Functions: functions()}
	var diags hcl.Diagnostics
	env := map[string]cty.Value{}
	for _, traversal := range expr.Variables() {
		name := traversal.RootName()
		var problem *hcl.Diagnostic
		switch name {
		case "env":
			problem = e.addEnv(env, traversal)
		case "home":
			if e.input.Home == "" {
				problem = refError(traversal, "No home directory", "The home directory is not known here, because HOME is not set.")
			}
			ctx.Variables[name] = cty.StringVal(e.input.Home)
		case "platform":
			ctx.Variables[name] = cty.ObjectVal(map[string]cty.Value{
				"os": cty.StringVal(e.input.OS), "arch": cty.StringVal(e.input.Arch),
			})
		case "workspace":
			root, err := e.workspaceRoot()
			if err != nil {
				problem = refError(traversal, "No workspace root", err.Error()+".")
			}
			ctx.Variables[name] = cty.ObjectVal(map[string]cty.Value{"root": cty.StringVal(root)})
		default:
			problem = unknownRoot(traversal)
		}
		if problem != nil {
			diags = append(diags, problem)
		}
	}
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}
	ctx.Variables["env"] = cty.ObjectVal(env)

	val, diags := expr.Value(ctx)
	for _, d := range diags {
		part := d.Expression
		if part == nil || refersToLocal(part) {
			part = expr
		}
		if e.refersToSet(part) {
			d.Detail = "The expression fails. The reason is not shown, because it could contain the value of a variable."
		}
		d.Detail += e.unset(part)
	}
	return val, diags
}

// refersToEnv reports whether the value of expr can come from the environment, and so may be a
// secret.
func refersToEnv(expr hcl.Expression) bool {
	return slices.ContainsFunc(expr.Variables(), func(t hcl.Traversal) bool { return t.RootName() == "env" })
}

// refersToSet reports whether expr refers to a variable that has a value.
func (e *evaluator) refersToSet(expr hcl.Expression) bool {
	return slices.ContainsFunc(expr.Variables(), func(t hcl.Traversal) bool {
		name, ok := envName(t)
		return ok && e.isSet(name)
	})
}

// refersToLocal reports whether expr is inside of a for expression, whose names can stand for any
// value outside.
func refersToLocal(expr hcl.Expression) bool {
	return slices.ContainsFunc(expr.Variables(), func(t hcl.Traversal) bool {
		return !slices.Contains(roots(), t.RootName())
	})
}

func (e *evaluator) isSet(name string) bool {
	if e.input.LookupEnv == nil {
		return false
	}
	_, set := e.input.LookupEnv(name)
	return set
}

// addEnv adds the variable that traversal names. An unset one is null, so that coalesce works.
func (e *evaluator) addEnv(env map[string]cty.Value, traversal hcl.Traversal) *hcl.Diagnostic {
	name, ok := envName(traversal)
	if !ok {
		return refError(traversal, "Name of a variable needed",
			"env is not a value by itself: write env.NAME, or env[\"NAME\"], with the name of one variable.")
	}
	env[name] = cty.NullVal(cty.String)
	if e.input.LookupEnv == nil {
		return nil
	}
	if value, set := e.input.LookupEnv(name); set {
		if !utf8.ValidString(value) {
			return refError(traversal, "Variable is not text", fmt.Sprintf("The value of env.%s is not UTF-8 text.", name))
		}
		env[name] = cty.StringVal(value)
	}
	return nil
}

func envName(traversal hcl.Traversal) (string, bool) {
	if traversal.RootName() != "env" || len(traversal) < 2 {
		return "", false
	}
	switch step := traversal[1].(type) {
	case hcl.TraverseAttr:
		return step.Name, true
	case hcl.TraverseIndex:
		if step.Key.Type() == cty.String && step.Key.IsKnown() && !step.Key.IsNull() {
			return step.Key.AsString(), true
		}
	}
	return "", false
}

// unset returns a sentence about the unset variables of expr, or "".
func (e *evaluator) unset(expr hcl.Expression) string {
	var names []string
	for _, traversal := range expr.Variables() {
		if name, ok := envName(traversal); ok && !e.isSet(name) && !slices.Contains(names, "env."+name) {
			names = append(names, "env."+name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(" Not set here: %s; coalesce(%s, ...) gives a default.", strings.Join(names, ", "), names[0])
}

func (e *evaluator) workspaceRoot() (string, error) {
	switch {
	case e.root != "":
		return e.root, nil
	case e.input.Root == nil:
		return "", fmt.Errorf("workspace.root is not known here; set root in the workspace block")
	}
	root, err := e.input.Root()
	if err != nil {
		return "", fmt.Errorf("workspace.root is not known: %w", err)
	}
	return root, nil
}

// refersToWorkspace returns the reference to workspace in an expression, or nil.
func refersToWorkspace(expr hcl.Expression) hcl.Traversal {
	for _, traversal := range expr.Variables() {
		if traversal.RootName() == "workspace" {
			return traversal
		}
	}
	return nil
}

func unknownRoot(traversal hcl.Traversal) *hcl.Diagnostic {
	name := traversal.RootName()
	detail := fmt.Sprintf("There is no value named %q.", name)
	switch near := source.Nearest(name, roots()); {
	case near != "":
		detail += fmt.Sprintf(" Did you mean %q?", near)
	case len(traversal) == 1:
		detail += fmt.Sprintf(" If you mean text, put it in quotes: %q.", name)
	default:
		detail += " There are " + list(roots()) + "."
	}
	return refError(traversal, "Unknown name", detail)
}

func refError(traversal hcl.Traversal, summary, detail string) *hcl.Diagnostic {
	return &hcl.Diagnostic{
		Severity: hcl.DiagError,
		Summary:  summary,
		Detail:   detail,
		Subject:  traversal.SourceRange().Ptr(),
	}
}
