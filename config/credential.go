package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/egress"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

var credentialSchema = newBlock("", []attribute[host.Credential]{
	{name: "hosts",
		read: func(d *decoder, it item, to *host.Credential) {
			to.Hosts = d.good(it, d.text)
			for i, s := range to.Hosts {
				if name, canonical := egress.Canonical(s); canonical {
					to.Hosts[i] = name
				}
			}
		},
		shown: func(of *host.Credential) string { return ifSet(of.Hosts != nil, listOf(of.Hosts)) }},
	{name: "header",
		read:  func(d *decoder, it item, to *host.Credential) { to.Header, _ = d.text(it) },
		shown: func(of *host.Credential) string { return ifSet(of.Hosts != nil, of.Header) }},
	{name: "value",
		read:  func(d *decoder, it item, to *host.Credential) { d.secret(it, to) },
		shown: func(of *host.Credential) string { return ifSet(of.Env != nil, "not shown, because it is secret") }},
	aBool("pass", func(x *host.Credential) *bool { return &x.Pass }),
})

// ifSet returns text, or "" if the set lacks the part.
func ifSet(set bool, text string) string {
	if set {
		return text
	}
	return ""
}

// credentialBlocks reads the sets. A set with a variable that is not set, or empty, is unavailable, which is
// an error only for a command that uses it.
func (d *decoder) credentialBlocks(blocks hcl.Blocks, eval *evaluator) map[string]host.Credential {
	before := d.eval
	defer func() { d.eval = before }()
	d.variable = func(name string) (value string) {
		if eval.input.LookupEnv != nil {
			value, _ = eval.input.LookupEnv(name)
		}
		return value
	}
	d.eval = eval.with(d.variable).value
	d.placeholders = eval.with(view.Placeholder)
	sets := make(map[string]host.Credential, len(blocks))
	for _, block := range blocks {
		name, _ := d.blockName(block, "a credential", view.CredentialSSHAgent)
		errors := len(d.diags)
		set := host.Credential{Header: "Authorization"}
		content := credentialSchema.read(d, block.Body, block.DefRange, &set)
		if slices.Contains(view.Credentials(), name) {
			for _, attr := range content.Attributes {
				if attr.Name != "pass" {
					d.report(attr.NameRange, "Built-in credential", fmt.Sprintf("The credential %q is built in, and only pass may be set. Remove %s, or choose another name for the block.", name, attr.Name))
				}
			}
			if set.Pass && len(d.diags) == errors {
				sets[name] = host.Credential{Pass: true}
			}
			continue
		}
		if content.Attributes["hosts"] == nil && !set.Pass {
			d.report(block.DefRange, "Missing attribute", "A credential block needs hosts, the names that requests with the credential may go to, or pass = true, with which commands get the credential.")
		}
		if content.Attributes["value"] == nil {
			d.report(block.DefRange, "Missing attribute", "A credential block needs value, which uses a variable of the environment.")
		}
		if len(d.diags) == errors {
			d.add(diagnose(set.Validate(), "a secret", func(attribute string) (hcl.Range, bool) {
				at, _ := locateInSandbox(block.Body, block.DefRange, attribute)
				return at, false // Validate shows no values
			}))
		}
		sets[name] = set
	}
	return sets
}

// secret reads the value of a credential. It makes the command's placeholder from the same
// expression, with placeholders as the values of its variables.
func (d *decoder) secret(it item, to *host.Credential) {
	value, ok := d.text(it)
	if !ok {
		return
	}
	to.Env = map[string]shared.Secret{}
	for _, traversal := range it.expr.Variables() {
		if name, ok := envName(traversal); ok {
			to.Env[name] = shared.Secret(d.variable(name))
		}
	}
	instead, diags := d.placeholders.value(it.expr)
	if !diags.HasErrors() {
		to.Placeholder, ok = d.text(itemOf(it.name, instead, it.expr))
	}
	for name := range to.Env {
		ok = ok && strings.Contains(to.Placeholder, view.Placeholder(name))
	}
	if len(to.Env) == 0 || !ok || diags.HasErrors() {
		d.invalid(it, `must contain the unchanged value of a variable, such as "Bearer ${env.NPM_TOKEN}": commands get a placeholder in that variable`)
		return
	}
	if !slices.Contains(slices.Collect(maps.Values(to.Env)), "") {
		to.Value = shared.Secret(value)
	}
}

// with returns an evaluator in which every variable has a value.
func (e *evaluator) with(value func(name string) string) *evaluator {
	other := *e
	other.input.LookupEnv = func(name string) (string, bool) { return value(name), true }
	return &other
}
