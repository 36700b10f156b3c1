package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
)

// plan is what a file asks for.
type plan struct {
	path, dir string
	sandboxes map[string]host.Definition
	bodies    map[string]hcl.Body // of the sandboxes
	eval      *hcl.EvalContext
	steps     []*step // in the order of the file, which is one in which they can run
}

// step is one command.
type step struct {
	name, sandbox string
	argv          []string
	needs         []*step
	done          chan struct{} // closed at its end
	err           error         // once done
}

// load reads a file. Everything that is wrong with it is found at once, the
// sandboxes included, and has its place.
func load(name string, builtins host.Builtins) (*plan, map[string]*hcl.File, hcl.Diagnostics) {
	parser := hclparse.NewParser()
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, nil, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "No such file", Detail: err.Error()}}
	}
	file, diags := parser.ParseHCLFile(path)
	if diags.HasErrors() {
		return nil, parser.Files(), diags
	}
	p := &plan{path: path, dir: filepath.Dir(path), sandboxes: map[string]host.Definition{}, bodies: map[string]hcl.Body{}}
	content, more := file.Body.Content(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "sandbox", LabelNames: []string{"name"}}, {Type: "step", LabelNames: []string{"name"}},
	}})
	diags = append(diags, more...)
	home, _ := os.UserHomeDir() // without one, ~ is an error at its line
	eval := &hcl.EvalContext{Variables: map[string]cty.Value{"project": cty.StringVal(p.dir)}}
	p.eval = eval
	for _, block := range content.Blocks.OfType("sandbox") {
		if _, ok := p.sandboxes[block.Labels[0]]; ok {
			diags = append(diags, problem(block.DefRange, "Duplicate sandbox", fmt.Sprintf("There is a sandbox %q already.", block.Labels[0])))
		}
		def, more := config.DecodeSandbox(block.Body, eval, config.SandboxOptions{
			Dir: p.dir, Home: home,
			Schema: func(engine string) (shared.OptionSchema, error) {
				info, ok := builtins.Info(engine)
				if !ok {
					return shared.OptionSchema{}, fmt.Errorf("this program contains no engine %q", engine)
				}
				return info.Options, nil
			},
		})
		diags = append(diags, more...)
		p.sandboxes[block.Labels[0]], p.bodies[block.Labels[0]] = def, block.Body
	}
	for _, block := range content.Blocks.OfType("step") {
		diags = append(diags, p.addStep(block, eval)...)
	}
	if len(p.steps) == 0 {
		diags = append(diags, problem(file.Body.MissingItemRange(), "No step", "The file has nothing to run."))
	}
	return p, parser.Files(), diags
}

// addStep decodes a step. It can need only steps that stand before it, so that
// there is no circle.
func (p *plan) addStep(block *hcl.Block, eval *hcl.EvalContext) hcl.Diagnostics {
	content, diags := block.Body.Content(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{
		{Name: "sandbox", Required: true}, {Name: "command", Required: true}, {Name: "needs"},
	}})
	s := &step{name: block.Labels[0], done: make(chan struct{})}
	problem := func(at hcl.Range, summary, detail string) { diags = append(diags, problem(at, summary, detail)) }
	if p.step(s.name) != nil {
		problem(block.DefRange, "Duplicate step", fmt.Sprintf("There is a step %q already.", s.name))
	}
	if attr := content.Attributes["sandbox"]; attr != nil {
		s.sandbox, diags = text(attr, eval, diags)
		if _, ok := p.sandboxes[s.sandbox]; !ok && !diags.HasErrors() {
			problem(attr.Expr.Range(), "Unknown sandbox", fmt.Sprintf("The file has no sandbox %q.", s.sandbox))
		}
	}
	if attr := content.Attributes["command"]; attr != nil {
		s.argv, diags = texts(attr, eval, diags)
		if len(s.argv) == 0 && !diags.HasErrors() {
			problem(attr.Expr.Range(), "No command", "A step runs a program with its arguments.")
		}
	}
	if attr := content.Attributes["needs"]; attr != nil {
		var names []string
		names, diags = texts(attr, eval, diags)
		for _, name := range names {
			needed := p.step(name)
			if needed == nil {
				problem(attr.Expr.Range(), "Unknown step", fmt.Sprintf("There is no step %q before this one.", name))
				continue
			}
			s.needs = append(s.needs, needed)
		}
	}
	p.steps = append(p.steps, s)
	return diags
}

// diagnose gives an error of the host its place, if it is one about a sandbox.
func (p *plan) diagnose(err error) hcl.Diagnostics {
	e, ok := errors.AsType[*host.SandboxError](err)
	if !ok {
		return nil
	}
	return config.DiagnoseSandbox(p.bodies[e.Sandbox], p.eval, err)
}

// problem is an error at its place.
func problem(at hcl.Range, summary, detail string) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &at}
}

func (p *plan) step(name string) *step {
	for _, s := range p.steps {
		if s.name == name {
			return s
		}
	}
	return nil
}

func text(attr *hcl.Attribute, eval *hcl.EvalContext, diags hcl.Diagnostics) (string, hcl.Diagnostics) {
	list, diags := values(attr, cty.String, eval, diags)
	if len(list) != 1 {
		return "", diags
	}
	return list[0], diags
}

func texts(attr *hcl.Attribute, eval *hcl.EvalContext, diags hcl.Diagnostics) ([]string, hcl.Diagnostics) {
	return values(attr, cty.List(cty.String), eval, diags)
}

func values(attr *hcl.Attribute, want cty.Type, eval *hcl.EvalContext, diags hcl.Diagnostics) ([]string, hcl.Diagnostics) {
	value, more := attr.Expr.Value(eval)
	diags = append(diags, more...)
	if more.HasErrors() {
		return nil, diags
	}
	value, err := convert.Convert(value, want)
	wrong := append(diags, problem(attr.Expr.Range(), "Wrong type", fmt.Sprintf("%s takes a %s.", attr.Name, want.FriendlyName())))
	if err != nil || value.IsNull() || !value.IsWhollyKnown() {
		return nil, wrong
	}
	if want == cty.String {
		return []string{value.AsString()}, diags
	}
	var list []string
	for _, v := range value.AsValueSlice() {
		if v.IsNull() {
			return nil, wrong
		}
		list = append(list, v.AsString())
	}
	return list, diags
}
