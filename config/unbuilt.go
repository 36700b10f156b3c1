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
	{path: "sandbox.engine", refused: is("docker"), what: "the engine docker",
		instead: `Use another engine, or "auto".`},
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

func is(text string) func(cty.Value) bool {
	return func(v cty.Value) bool { return v.Type() == cty.String && v.AsString() == text }
}
