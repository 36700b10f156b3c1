package config

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// unbuiltAttribute is a part of the configuration language that this version
// cannot hold. It is refused, since to ignore it would be to run a command
// with less isolation than its author wrote down.
type unbuiltAttribute struct {
	path    string               // "limits.cpus"
	refused func(cty.Value) bool // nil means any value
	what    string               // to complete "... is more than this version can hold"
	instead string               // what to write meanwhile; empty means leave it out
}

// unbuilt lists them all. What comes to be built leaves the list.
var unbuilt = [...]unbuiltAttribute{
	{path: "sandbox.deny_paths", refused: notEmpty, what: "hiding paths from a command"},
	{path: "sandbox.fallback", refused: is("approve"), what: "asking for approval to run without a sandbox",
		instead: `Write fallback = "deny".`},
	{path: "limits.cpus", what: "a limit of processor time"},
	{path: "limits.temp_size", what: "a limit of temporary space"},
	{path: "workspace.temp", refused: isTrue, what: "a scratch directory that lasts for a session"},
	{path: "workspace.toolchains", refused: isTrue, what: "showing toolchain and cache directories",
		instead: "Name the directories in bind_paths."},
	{path: "approvals.mode", refused: isNot("deny"), what: "running anything without a sandbox, with or without asking",
		instead: `Write mode = "deny".`},
	{path: "approvals.session_ttl", what: "remembering approvals"},
	{path: "approvals.allow_bypass", refused: isTrue, what: "running a command without a sandbox on request"},
}

// refuse reports attr when it is in the list, and whether it did, or could not
// tell since the expression has errors, which are then reported.
func (d *decoder) refuse(path string, attr *hcl.Attribute) bool {
	for i := range unbuilt {
		u := &unbuilt[i]
		if u.path != path {
			continue
		}
		val, ok := d.evaluate(attr.Name, attr.Expr)
		if !ok {
			return true
		}
		if u.refused != nil && (val.IsNull() || !u.refused(val)) {
			return false
		}
		instead := u.instead
		if instead == "" {
			instead = "Leave it out to go on without it."
		}
		d.report(attr.Expr.Range(), "Not available yet",
			fmt.Sprintf("%s: %s is more than this version of sbxhost can hold, so it is refused rather than ignored. %s",
				strings.TrimPrefix(path, "sandbox."), u.what, instead))
		return true
	}
	return false
}

func notEmpty(v cty.Value) bool {
	return !v.CanIterateElements() || v.LengthInt() > 0
}

func isTrue(v cty.Value) bool { return v.Type() == cty.Bool && v.True() }

func is(text string) func(cty.Value) bool {
	return func(v cty.Value) bool { return v.Type() == cty.String && v.AsString() == text }
}

func isNot(text string) func(cty.Value) bool {
	return func(v cty.Value) bool { return v.Type() == cty.String && v.AsString() != text }
}
