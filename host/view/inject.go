package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/egress"
	"github.com/sbxhost/sbxhost/shared"
)

// OriginInject is the attribute by which credentials are put into requests outside.
const OriginInject = "inject_credentials"

// A Credential is one for Definition.InjectCredentials that is no built-in set.
type Credential struct {
	// Hosts are names, without a wildcard. Requests to no other host get it.
	Hosts []string
	// Header is where it goes; empty means Authorization.
	Header string
	// Env are variables with what is secret of Value, such as the token in "Bearer TOKEN".
	// Commands get a [Placeholder] in each, and no other variable with it.
	Env map[string]shared.Secret
	// Placeholder is what commands send in the place of Value, such as "Bearer PLACEHOLDER".
	Placeholder string
	// Value is the secret. Empty: it is not to be had, and commands are not authenticated.
	Value shared.Secret
}

// Placeholder is the value of a variable for commands that do not get the real one. None has
// another one in it.
func Placeholder(variable string) string { return "sbxhost." + variable + ".placeholder" }

// Validate reports the attribute that cannot be as it is.
func (c *Credential) Validate() error {
	if len(c.Hosts) == 0 {
		return Invalid("hosts", "it is empty: no request would get the credential", "")
	}
	for i, host := range c.Hosts {
		if rule, err := egress.ParseRule(host); err != nil || rule.Name != host || rule.Subdomains {
			return Invalid(fmt.Sprintf("hosts[%d]", i), "it is not a name alone, in lower case", `write each host by itself, such as "registry.npmjs.org": one below a name may belong to somebody else`)
		}
	}
	if c.Header != "" && !isHeader(c.Header) {
		return Invalid("header", "no credential goes into such a header", `write one such as "Authorization" or "X-Api-Key"`)
	}
	switch {
	case c.Value == "":
	case strings.ContainsFunc(string(c.Value), func(r rune) bool { return r < ' ' || r == 0x7f }):
		return Invalid("value", "it has a character in it that no header can have, such as the end of a line", "")
	case len(c.Env) == 0 || c.Placeholder == "" || strings.Contains(c.Placeholder, string(c.Value)):
		return Invalid("value", "commands have nothing to send in its place", "let it come of a variable of the environment")
	}
	return nil
}

// isHeader reports whether a name is that of a header which is the command's own: those that say
// where a request ends, or goes, are made anew.
func isHeader(name string) bool {
	for _, c := range []byte(name) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return !slices.Contains([]string{"host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "keep-alive", "proxy-authorization", "proxy-connection"}, strings.ToLower(name))
}

// CheckInject reports what of InjectCredentials means nothing. Own are the sets that are not
// built in, by name.
func (d *Definition) CheckInject(own map[string]Credential) error {
	if len(d.InjectCredentials) == 0 {
		return nil
	}
	if d.Network.Names == nil {
		return Invalid(OriginInject, fmt.Sprintf("with network = %v no request can be told from another", d.Network.Host), "list the names that commands reach in network, or use credentials, which commands then have")
	}
	for i, name := range d.InjectCredentials {
		attribute := fmt.Sprintf("%s[%d]", OriginInject, i)
		set, isOwn := own[name]
		github := !isOwn && (name == CredentialGitHub || name == CredentialGitHubCLI)
		switch {
		case slices.Contains(d.InjectCredentials[:i], name):
			return Invalid(attribute, fmt.Sprintf("%q is in the list already", name), "")
		case !isOwn && name == CredentialSSHAgent:
			return Invalid(attribute, "an agent's signatures are in no header", "name it in credentials")
		case !isOwn && !github:
			return invalidf(attribute, fmt.Sprintf("there are %q, %q and those of credential blocks", CredentialGitHub, CredentialGitHubCLI), "there is no credential %q", name)
		case github && slices.ContainsFunc(slices.Concat(d.Credentials, d.InjectCredentials[:i]), func(other string) bool { return strings.HasPrefix(other, CredentialGitHub) && own[other].Hosts == nil }):
			return Invalid(attribute, "the same token is passed on, or put in, by another set", "leave one of the two out")
		case isOwn:
			if missing := slices.DeleteFunc(slices.Clone(set.Hosts), d.reaches); len(missing) > 0 {
				return invalidf(attribute, fmt.Sprintf("add %q to network", missing[0]), "network does not reach %s, a host of credential %q, at port 443", missing[0], name)
			}
		}
	}
	return nil
}

// reaches reports whether the network is a list that lets commands reach a host by HTTPS.
func (d *Definition) reaches(host string) bool {
	rules, err := egress.ParseRules(d.Network.Names)
	return err == nil && rules.Allow(host, 443)
}

// GitHubHosts are those of a GitHub server that a definition reaches, by its address.
func (d *Definition) GitHubHosts(address string) ([]string, error) {
	hosts := []string{address}
	if address == "github.com" || strings.HasSuffix(address, ".ghe.com") {
		hosts = append(hosts, "api."+address, "uploads."+address)
	}
	hosts = slices.DeleteFunc(hosts, func(host string) bool { return !d.reaches(host) })
	if len(hosts) == 0 {
		return nil, invalidf(OriginInject, fmt.Sprintf("add %q to network", address), "network reaches no host of %s at port 443", address)
	}
	return hosts, nil
}

// Trust is a file of certificates that programs trust.
type Trust struct {
	Path    string // of the host's; empty: nothing is added to it
	Content []byte // what commands see there
}

// TrustVariables are those by which programs find such a file: each replaces what a program
// trusts otherwise, or adds to it.
func TrustVariables() []string {
	return []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "PIP_CERT",
		"CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "DENO_CERT", "NIX_SSL_CERT_FILE"}
}

// showTrust shows that file.
func (v *View) showTrust() error {
	t := &v.in.Trust
	if t.Path == "" {
		return nil
	}
	if v.Settled == nil {
		v.Settled = map[string][]byte{}
	}
	v.Settled[t.Path] = t.Content
	return v.add(shared.Entry{Source: t.Path, Path: t.Path, Access: shared.ReadOnly, Why: OriginInject})
}
