package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/sbxhost/sbxhost/egress"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/shared"
)

var credentialSchema = newBlock("a credential block", "", []attribute[host.Credential]{
	{name: "hosts", needs: "A credential block needs hosts, the names that requests with the credential may go to.",
		read: func(d *decoder, it item, to *host.Credential) {
			to.Hosts = d.good(it, func(e item) (string, bool) {
				s, ok := d.text(e)
				if name, canonical := egress.Canonical(s); canonical {
					s = name
				}
				return s, ok
			})
		},
		shown: func(of *host.Credential) string { return listOf(of.Hosts) }},
	{name: "header",
		read:  func(d *decoder, it item, to *host.Credential) { to.Header, _ = d.text(it) },
		shown: func(of *host.Credential) string { return of.Header }},
	{name: "value", needs: "A credential block needs value, which comes of a variable of the environment.",
		read:  func(d *decoder, it item, to *host.Credential) { d.secret(it, to) },
		shown: func(*host.Credential) string { return "not shown, since it is secret" }},
})

// credentialBlocks reads the sets. A variable that is not set makes one that is not to be had,
// which concerns nobody but who uses it.
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
		name := block.Labels[0]
		d.checkName(block, "a credential", view.Credentials()...)
		if _, dup := sets[name]; dup {
			d.report(block.LabelRanges[0], "Duplicate credential", fmt.Sprintf("There is a credential %q already.", name))
		}
		errors := len(d.diags)
		set := host.Credential{Header: "Authorization"}
		credentialSchema.read(d, block.Body, block.DefRange, &set)
		if len(d.diags) == errors {
			d.add(diagnose(set.Validate(), "a secret", func(attribute string) (hcl.Range, bool) {
				at, _ := locateInSandbox(block.Body, block.DefRange, attribute)
				return at, false // Validate shows no value
			}))
		}
		sets[name] = set
	}
	return sets
}

// secret reads the value of a credential, and what commands have in its place: what comes of the
// same expression with placeholders as the values of its variables.
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
		d.invalid(it, `must have the value of a variable in it as it is, such as "Bearer ${env.NPM_TOKEN}": commands get a placeholder in that variable`)
		return
	}
	if d.unset(it.expr) == "" {
		to.Value = shared.Secret(value)
	}
}

// with is an evaluator for which every variable has a value.
func (e *evaluator) with(value func(name string) string) *evaluator {
	other := *e
	other.input.LookupEnv = func(name string) (string, bool) { return value(name), true }
	return &other
}

// injected are names of credentials that a sandbox does not have.
func (d *decoder) injected(it item) []string {
	allowed := slices.Concat(d.credentialNames, []string{view.CredentialGitHub, view.CredentialGitHubCLI})
	return d.good(it, func(e item) (string, bool) { return d.oneOf(e, allowed...) })
}
