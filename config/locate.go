package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
)

// Locate finds the range of a sandbox's attribute, spelled as in shared.Error: "bind_paths[1]",
// "limits.memory", "config.image", "workspace.root", "engine.mine.sha256", "credential.npm.hosts".
// If the file does not set it, the range is the nearest element around it, at last the sandbox's
// header. It returns false for an unknown sandbox.
func (f *File) Locate(sandbox, attribute string) (hcl.Range, bool) {
	at, _, found := f.locate(sandbox, attribute)
	return at, found
}

// locate also returns the whole attribute, nil if the file does not set it.
func (f *File) locate(sandbox, attribute string) (at hcl.Range, attr *hcl.Attribute, found bool) {
	b := f.sandboxes[sandbox]
	if b == nil {
		return hcl.Range{}, nil, false
	}
	steps := splitAttribute(attribute)
	if len(steps) > 0 && slices.Contains([]string{"default_sandbox", "workspace", "approvals", "audit", "mcp"}, steps[0]) {
		at, attr = locateIn(f.source.Body(), b.DefRange, steps)
		return at, attr, true
	}
	// The rest is NAME.ATTRIBUTE of an engine or credential block; NAME can contain dots.
	if kind, rest, _ := strings.Cut(attribute, "."); kind == "engine" || kind == "credential" {
		dot := strings.LastIndexByte(rest, '.')
		for _, block := range f.source.Body().Blocks {
			if dot > 0 && block.Type == kind && slices.Equal(block.Labels, []string{rest[:dot]}) {
				at, attr = locateIn(block.Body, block.DefRange(), []string{rest[dot+1:]})
				return at, attr, true
			}
		}
	}
	at, attr = locateInSandbox(b.Body, b.DefRange, attribute)
	return at, attr, true
}

// locateSandbox finds the range of a sandbox's attribute in a body for [DecodeSandbox], spelled as
// in shared.Error: "bind_paths[1]", "limits.memory", "config.image". If the body does not set it,
// the range is the nearest element around it, at last the body's own MissingItemRange.
func locateSandbox(body hcl.Body, attribute string) hcl.Range {
	at, _ := locateInSandbox(body, body.MissingItemRange(), attribute)
	return at
}

func locateInSandbox(body hcl.Body, around hcl.Range, attribute string) (hcl.Range, *hcl.Attribute) {
	steps := splitAttribute(attribute)
	at, attr := locateIn(body, around, steps)
	if len(steps) > 0 && steps[0] == "config" && at == around {
		at, _ = locateIn(body, around, []string{"engine"}) // the attribute that needs the missing block
	}
	return at, attr
}

// splitAttribute splits "bind_paths[1].host" into "bind_paths", "1", "host".
func splitAttribute(attribute string) []string {
	return strings.FieldsFunc(attribute, func(r rune) bool { return r == '.' || r == '[' || r == ']' || r == ' ' })
}

func locateIn(body hcl.Body, around hcl.Range, steps []string) (hcl.Range, *hcl.Attribute) {
	if len(steps) == 0 {
		return around, nil
	}
	// Decoding has reported an element of another form.
	content, _, _ := body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: steps[0]}}})
	if attr := content.Attributes[steps[0]]; attr != nil {
		return locateExpression(attr.Expr, steps[1:]), attr
	}
	content, _, _ = body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: steps[0]}}})
	if len(content.Blocks) > 0 {
		return locateIn(content.Blocks[0].Body, content.Blocks[0].DefRange, steps[1:])
	}
	return around, nil
}

func locateExpression(expr hcl.Expression, steps []string) hcl.Range {
	if len(steps) == 0 {
		return expr.Range()
	}
	if i, err := strconv.Atoi(steps[0]); err == nil {
		if list, _ := hcl.ExprList(expr); i >= 0 && i < len(list) {
			return locateExpression(list[i], steps[1:])
		}
		return expr.Range()
	}
	pairs, _ := hcl.ExprMap(expr)
	for _, pair := range pairs {
		if key, diags := pair.Key.Value(nil); !diags.HasErrors() && key.RawEquals(cty.StringVal(steps[0])) {
			return locateExpression(pair.Value, steps[1:])
		}
	}
	return expr.Range()
}

// Diagnose adds ranges of the file to an error of the host or an engine. An error with several
// parts becomes several diagnostics. For an attribute whose value comes from a variable, it omits
// the error's text, which may quote the value.
func (f *File) Diagnose(sandbox string, err error) Diagnostics {
	return f.source.Finish(diagnose(err, "the value of a variable", func(attribute string) (hcl.Range, bool) {
		at, attr, found := f.locate(sandbox, attribute)
		if !found {
			at = hcl.Range{Filename: f.source.Name, Start: hcl.InitialPos, End: hcl.InitialPos}
		}
		return at, attr != nil && refersToEnv(attr.Expr)
	}))
}

// DiagnoseSandbox adds ranges to an error of the host or an engine, from the body that
// [DecodeSandbox] decoded: the range of the attribute in the error, or else of the nearest element
// around it. An error with several parts becomes several diagnostics.
func DiagnoseSandbox(body hcl.Body, err error) hcl.Diagnostics {
	return diagnose(err, "", func(attribute string) (hcl.Range, bool) { return locateSandbox(body, attribute), false })
}

// diagnose adds a range to each part of err. It omits the reason if the value is secret.
func diagnose(err error, secret string, locate func(attribute string) (at hcl.Range, isSecret bool)) hcl.Diagnostics {
	var diags hcl.Diagnostics
	if e, ok := err.(*host.SandboxError); ok {
		err = e.Err // the diagnostic shows the sandbox's name at its range
	}
	for _, err := range flatten(err) {
		diag := &hcl.Diagnostic{Severity: hcl.DiagError}
		attribute := ""
		var e *shared.Error
		if errors.As(err, &e) {
			attribute = e.Attribute
			diag.Summary = summaryOf(e)
			diag.Detail = sentence(e)
		} else {
			diag.Summary = "Sandbox cannot be used"
			diag.Detail = upperFirst(err.Error()) + "."
		}
		at, isSecret := locate(attribute)
		if isSecret {
			diag.Detail = attribute + ": the value is refused; the reason is not shown, because it could contain " + secret + "."
		}
		diag.Subject = &at
		diags = append(diags, diag)
	}
	return diags
}

// AsWarnings turns errors into warnings, where the file is not at fault.
func AsWarnings(diags Diagnostics) Diagnostics {
	for _, d := range diags {
		d.Severity = hcl.DiagWarning
	}
	return diags
}

func flatten(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	// fmt.Errorf with several %w is one sentence, so this splits only errors that read as a list.
	parts := joined.Unwrap()
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i] = part.Error()
	}
	if strings.Join(texts, "\n") != err.Error() {
		return []error{err}
	}
	var all []error
	for _, part := range parts {
		all = append(all, flatten(part)...)
	}
	return all
}

func summaryOf(e *shared.Error) string {
	switch e.Kind {
	case shared.ErrInvalidSpec:
		return "Invalid value"
	case shared.ErrUnsupported: // by the engine, or by this machine
		return "Not supported here"
	case nil:
		return "Sandbox cannot be used"
	}
	return upperFirst(e.Kind.Error())
}

func sentence(e *shared.Error) string {
	cause := *e
	cause.Hint = ""
	text := cause.Error()
	if e.Attribute == "" {
		text = upperFirst(text)
	}
	if e.Hint != "" {
		return fmt.Sprintf("%s. %s.", text, upperFirst(e.Hint))
	}
	return text + "."
}
