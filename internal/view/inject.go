package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/egress"
	"github.com/sbxhost/sbxhost/shared"
)

// OriginInject is the attribute by which credentials are put into requests outside.
const OriginInject = "credentials"

// A Credential is one for Definition.Credentials that is no built-in set, or says Pass of one.
type Credential struct {
	// Pass has commands get the variables as they are. A built-in set has nothing else.
	Pass bool
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
	if c.Pass {
		return nil
	}
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

// Passed are the credentials that commands get. Own are the sets that are not built in, and those
// built in that say Pass, by name.
func (d *Definition) Passed(own map[string]Credential) (names []string) {
	for _, name := range d.Credentials {
		if name == CredentialSSHAgent || own[name].Pass {
			names = append(names, name)
		}
	}
	return names
}

// Injected are the others, which are put into requests outside.
func (d *Definition) Injected(own map[string]Credential) []string {
	passed := d.Passed(own)
	return slices.DeleteFunc(slices.Clone(d.Credentials), func(name string) bool { return slices.Contains(passed, name) })
}

// CheckCredentials reports what of Credentials means nothing.
func (d *Definition) CheckCredentials(own map[string]Credential) error {
	isGitHub := func(name string) bool { return name == CredentialGitHub || name == CredentialGitHubCLI }
	for i, name := range d.Credentials {
		attribute := fmt.Sprintf("%s[%d]", OriginInject, i)
		set, isOwn := own[name]
		switch {
		case slices.Contains(d.Credentials[:i], name):
			return Invalid(attribute, fmt.Sprintf("%q is in the list already", name), "")
		case !isOwn && !slices.Contains(Credentials(), name):
			return invalidf(attribute, fmt.Sprintf("there are %q and those of credential blocks", Credentials()), "there is no credential %q", name)
		case isGitHub(name) && slices.ContainsFunc(d.Credentials[:i], isGitHub):
			return Invalid(attribute, "another set in the list has the same token", "leave one of the two out")
		case name == CredentialSSHAgent || set.Pass:
		case d.Network.Names == nil:
			return Invalid(attribute, fmt.Sprintf("with network = %v no request can be told from another, so that the credential cannot stay outside", d.Network.Host),
				fmt.Sprintf("list the names that commands reach in network; or have commands get the credential, by pass = true in the block credential %q", name))
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

// A Substitute is what commands see in the place of a file of the host's.
type Substitute struct {
	Path    string // of the host's, resolved; empty: there is none
	At      string // inside
	Content []byte
}

// TrustVariables are those by which programs find such a file: each replaces what a program
// trusts otherwise, or adds to it.
func TrustVariables() []string {
	return []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "PIP_CERT",
		"CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "DENO_CERT", "NIX_SSL_CERT_FILE"}
}

// OriginAccounts is why there are lines in the files of users and groups that the host's have not.
const OriginAccounts = "users of this machine"

// showSubstitutes shows the certificates that are trusted, and the accounts of commands unless the
// definition has something else there.
func (v *View) showSubstitutes() error {
	if v.in.Trust.Path != "" {
		if err := v.substitute(&v.in.Trust, OriginInject); err != nil {
			return err
		}
	}
	for i := range v.in.Accounts {
		s := &v.in.Accounts[i]
		if at, _ := v.cover(s.At); at != nil {
			continue
		}
		if err := v.substitute(s, OriginAccounts); err != nil {
			return err
		}
	}
	return nil
}

func (v *View) substitute(s *Substitute, why string) error {
	v.FixedContents[s.Path] = s.Content
	return v.add(shared.Entry{Source: s.Path, Path: s.At, Access: shared.ReadOnly, Why: why})
}
