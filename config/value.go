package config

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/sbxhost/sbxhost/internal/source"
)

// decoder turns expressions into plain values and collects all errors.
type decoder struct {
	eval    func(hcl.Expression) (cty.Value, hcl.Diagnostics)
	unset   func(hcl.Expression) string // returns a sentence about unset variables
	dir     string                      // the base of relative paths
	home    string
	engines []string // names of the engine blocks, or from the embedding program
	// embedded means that the sandbox is in another program's file, without our other blocks.
	embedded bool
	setRoot  func(path string) // receives workspace.root if the file sets it
	defined  *File             // has the sandboxes so far
	// credentialNames are the names of credential blocks; placeholders replace their variables.
	credentialNames []string
	placeholders    *evaluator
	variable        func(name string) string // the real value; "" if it is not set
	blocks          map[string]hcl.Range     // the first block of each type and name
	diags           hcl.Diagnostics
}

func (d *decoder) add(diags hcl.Diagnostics) { d.diags = append(d.diags, diags...) }

func (d *decoder) report(at hcl.Range, summary, detail string) {
	d.diags = append(d.diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &at})
}

// item is a value with its range in the file.
type item struct {
	name   string // "bind_paths[1]"
	val    cty.Value
	at     hcl.Range
	expr   hcl.Expression // nil for a part of a computed value
	hidden bool           // a part of the value may come from a variable: do not show it
}

func itemOf(name string, val cty.Value, expr hcl.Expression) item {
	return item{name: name, val: val, at: expr.Range(), expr: expr, hidden: refersToEnv(expr)}
}

// part is a part of it, with its own range if the file has it literally.
func (it item) part(name string, val cty.Value, expr hcl.Expression) item {
	if expr != nil {
		return itemOf(name, val, expr)
	}
	return item{name: name, val: val, at: it.at, hidden: it.hidden}
}

// show is a string value in quotes, or words instead of a secret one.
func (it item) show(s string) string {
	if it.hidden {
		return "the value"
	}
	return strconv.Quote(s)
}

// invalid reports a value of the right type that makes no sense.
func (d *decoder) invalid(it item, format string, args ...any) {
	d.report(it.at, "Invalid value", it.name+": "+fmt.Sprintf(format, args...)+".")
}

func (d *decoder) wrongType(it item, want string) {
	if !it.val.IsKnown() {
		return // the evaluation has reported its error
	}
	detail := fmt.Sprintf("%s must be %s, and this is %s.", it.name, want, friendly(it.val))
	if it.val.IsNull() && it.expr != nil && d.unset != nil {
		detail += d.unset(it.expr)
	}
	d.report(it.at, "Wrong type", detail)
}

func friendly(v cty.Value) string {
	ty := v.Type()
	switch {
	case v.IsNull():
		return "null"
	case ty == cty.String, ty == cty.Number:
		return "a " + ty.FriendlyName()
	case ty == cty.Bool:
		return "a boolean"
	case isList(ty):
		return "a list"
	case ty.IsObjectType(), ty.IsMapType():
		return "an object"
	}
	return ty.FriendlyName()
}

func isList(ty cty.Type) bool { return ty.IsTupleType() || ty.IsListType() || ty.IsSetType() }

// is reports a value of another type than ty, or null; want describes a value of ty.
func (d *decoder) is(it item, ty cty.Type, want string) bool {
	is := !it.val.IsNull() && it.val.Type() == ty
	if !is {
		d.wrongType(it, want)
	}
	return is
}

// evaluate reports the errors of an expression, and returns false if its value is unknown. For a
// literal list or object it returns the parts without errors, so that their own errors appear too.
func (d *decoder) evaluate(name string, expr hcl.Expression) (cty.Value, bool) {
	val, diags := d.eval(expr)
	if !diags.HasErrors() {
		d.add(diags)
		if !val.IsWhollyKnown() {
			d.report(expr.Range(), "Unknown value", name+" depends on a value that is not known yet.")
			return cty.DynamicVal, false
		}
		return val, true
	}
	if exprs, _ := hcl.ExprList(expr); exprs != nil {
		parts := make([]cty.Value, len(exprs))
		for i, e := range exprs {
			parts[i], _ = d.evaluate(fmt.Sprintf("%s[%d]", name, i), e)
		}
		return cty.TupleVal(parts), true
	}
	if pairs, _ := hcl.ExprMap(expr); pairs != nil {
		parts := make(map[string]cty.Value, len(pairs))
		for _, pair := range pairs {
			key, ok := d.evaluate(name, pair.Key)
			val, _ := d.evaluate(name, pair.Value)
			if ok && !key.IsNull() && key.Type() == cty.String {
				parts[key.AsString()] = val
			} else if ok {
				d.report(pair.Key.Range(), "Invalid key", name+": a key is a string.")
			}
		}
		return cty.ObjectVal(parts), true
	}
	d.add(diags)
	return cty.DynamicVal, false
}

func (d *decoder) item(attr *hcl.Attribute) (item, bool) {
	val, ok := d.evaluate(attr.Name, attr.Expr)
	return itemOf(attr.Name, val, attr.Expr), ok
}

func (d *decoder) text(it item) (string, bool) {
	if !d.is(it, cty.String, "a string") {
		return "", false
	}
	s := it.val.AsString()
	if strings.IndexByte(s, 0) >= 0 {
		d.invalid(it, "contains a NUL character")
		return "", false
	}
	return s, true
}

func (d *decoder) bool(it item) (bool, bool) {
	ok := d.is(it, cty.Bool, "true or false")
	return ok && it.val.True(), ok
}

// oneOf is a string that must be one of a few.
func (d *decoder) oneOf(it item, allowed ...string) (string, bool) {
	s, ok := d.text(it)
	if !ok || slices.Contains(allowed, s) {
		return s, ok
	}
	d.invalid(it, "%s is not one of %s%s", it.show(s), list(quoted(allowed)), didYouMean(it, s, allowed))
	return "", false
}

// didYouMean asks whether a value means one of those allowed; "" if it is like none.
func didYouMean(it item, s string, allowed []string) string {
	if near := source.Nearest(s, allowed); near != "" && !it.hidden {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}

// count is a whole number, at least this one.
func (d *decoder) count(it item, least uint64) (uint64, bool) {
	if !d.is(it, cty.Number, "a number") {
		return 0, false
	}
	n := it.val.AsBigFloat()
	// The accuracy of Uint64 does not help: it calls 1.5 exact.
	v, _ := n.Uint64()
	if !n.IsInt() || v < least || v > 1<<31-1 {
		d.invalid(it, "must be a whole number from %d to %d", least, 1<<31-1)
		return 0, false
	}
	return v, true
}

// elements are those of a list, each with its range if the file has it literally.
func (d *decoder) elements(it item) ([]item, bool) {
	if it.val.IsNull() || !isList(it.val.Type()) {
		d.wrongType(it, "a list")
		return nil, false
	}
	exprs := make([]hcl.Expression, it.val.LengthInt())
	if it.expr != nil {
		if static, _ := hcl.ExprList(it.expr); len(static) == len(exprs) {
			exprs = static
		}
	}
	items := make([]item, 0, len(exprs))
	for _, v := range it.val.Elements() {
		i := len(items)
		items = append(items, it.part(fmt.Sprintf("%s[%d]", it.name, i), v, exprs[i]))
	}
	return items, true
}

// good returns the elements of a list that one accepts; it reports the others.
func (d *decoder) good(it item, one func(item) (string, bool)) []string {
	items, ok := d.elements(it)
	if !ok {
		return nil
	}
	out := make([]string, 0, len(items))
	for _, e := range items {
		if s, ok := one(e); ok {
			out = append(out, s)
		}
	}
	return out
}

// texts returns the strings of a list that accept accepts, and reports other values.
func (d *decoder) texts(it item, accept func(e item, s string) bool) []string {
	return d.good(it, func(e item) (string, bool) {
		s, ok := d.text(e)
		return s, ok && accept(e, s)
	})
}

// field is one entry of an object or map.
type field struct {
	key       string
	keyAt     hcl.Range
	hiddenKey bool // as item.hidden
	item
}

// showKey is the key in quotes, or words instead of a secret one.
func (f *field) showKey() string {
	if f.hiddenKey {
		return "the value"
	}
	return strconv.Quote(f.key)
}

// fields are the entries of an object, by key. A key that appears twice is an error; HCL itself
// would use the last.
func (d *decoder) fields(it item) ([]field, bool) {
	ty := it.val.Type()
	if it.val.IsNull() || !ty.IsObjectType() && !ty.IsMapType() {
		d.wrongType(it, `a map, such as { NAME = "value" }`)
		return nil, false
	}
	ok := true
	written := make(map[string]hcl.KeyValuePair)
	if it.expr != nil {
		pairs, _ := hcl.ExprMap(it.expr)
		for _, pair := range pairs {
			key, diags := d.eval(pair.Key)
			if diags.HasErrors() || key.IsNull() || !key.IsKnown() || key.Type() != cty.String {
				continue // already reported when the object was evaluated
			}
			name := key.AsString()
			if first, dup := written[name]; dup {
				d.report(pair.Key.Range(), "Duplicate key",
					fmt.Sprintf("%s: the key is set already, at %s.", it.name, first.Key.Range()))
				ok = false
				first.Value = nil // HCL has another entry's value
				written[name] = first
				continue
			}
			written[name] = pair
		}
	}
	fields := make([]field, 0, it.val.LengthInt())
	for k, v := range it.val.Elements() {
		f := field{key: k.AsString(), keyAt: it.at, hiddenKey: it.hidden}
		var expr hcl.Expression
		if pair, found := written[f.key]; found {
			f.keyAt, expr, f.hiddenKey = pair.Key.Range(), pair.Value, refersToEnv(pair.Key)
		}
		name := it.name + "." + f.key
		if f.hiddenKey {
			name = it.name + ".*"
		}
		f.item = it.part(name, v, expr)
		fields = append(fields, f)
	}
	slices.SortFunc(fields, func(a, b field) int { return cmp.Compare(a.key, b.key) })
	return fields, ok
}

// environment is a map of variables. Numbers and booleans are allowed, because they have one
// spelling as text.
func (d *decoder) environment(it item) map[string]string {
	env, unset := d.variables(it)
	for _, f := range unset {
		d.wrongType(f.item, "a string")
	}
	return env
}

// variables is a sandbox's environment. A literal null unsets a variable; a null from an unset
// variable of the caller is an error.
func (d *decoder) variables(it item) (_ map[string]string, unset []field) {
	fields, ok := d.fields(it)
	if !ok {
		return nil, nil
	}
	env := make(map[string]string, len(fields))
	for _, f := range fields {
		if !validEnvName(f.key) {
			d.report(f.keyAt, "Invalid name", fmt.Sprintf("%s: %s cannot be the name of a variable: use letters, digits and _, and no digit first.", it.name, f.showKey()))
			continue
		}
		if f.val.IsNull() && !f.hidden {
			unset = append(unset, f)
			continue
		}
		if !f.val.IsNull() {
			switch f.val.Type() {
			case cty.Number:
				f.val = cty.StringVal(number(f.val.AsBigFloat()))
			case cty.Bool:
				f.val = cty.StringVal(fmt.Sprint(f.val.True()))
			}
		}
		env[f.key], _ = d.text(f.item)
	}
	return env, unset
}

// number is n in decimal, or with an exponent if that is shorter: 1e600000000 must not become that
// many bytes.
func number(n *big.Float) string {
	if v, accuracy := n.Int64(); n.IsInt() && accuracy == big.Exact {
		return strconv.FormatInt(v, 10)
	}
	return n.Text('g', -1)
}
