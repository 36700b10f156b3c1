package view

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/egress"
	"github.com/sbxhost/sbxhost/shared"
)

// OriginInject is the attribute of credentials, which the host puts into requests.
const OriginInject = "credentials"

// A Credential is a set for Definition.Credentials: one of your own, or a built-in set with Pass.
type Credential struct {
	// Pass passes the variables on to commands. A built-in set has no other field.
	Pass bool
	// Hosts are names, without a wildcard. Only requests to these hosts get the credential.
	Hosts []string
	// Header is the header for it; empty means Authorization.
	Header string
	// Env are variables with the secret part of Value, such as the token in "Bearer TOKEN".
	// Commands get a [Placeholder] in each, and the token in no other variable.
	Env map[string]shared.Secret
	// Placeholder is what commands send in place of Value, such as "Bearer PLACEHOLDER".
	Placeholder string
	// Value is the secret. If it is empty, the credential is unavailable, and requests are not
	// authenticated.
	Value shared.Secret
}

// Placeholder is the value of a variable for commands that do not get the real one. No placeholder
// contains another one.
func Placeholder(variable string) string { return "sbxhost." + variable + ".placeholder" }

// Validate reports an invalid field by its attribute.
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
		return Invalid("value", "commands have nothing to send in its place", "use a variable of the environment")
	}
	return nil
}

// isHeader reports whether a header may have a credential. The host writes anew the headers that say
// where a request ends or goes.
func isHeader(name string) bool {
	return regexp.MustCompile("^[A-Za-z0-9_-]+$").MatchString(name) && !slices.Contains([]string{"host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "keep-alive", "proxy-authorization", "proxy-connection"}, strings.ToLower(name))
}

// SplitCredentials returns the credentials that commands get, and the others, which the host adds to
// requests. own are the sets that are not built in, and built-in ones with Pass, by name.
func SplitCredentials(d *Definition, own map[string]Credential) (passed, injected []string) {
	for _, name := range d.Credentials {
		if name == CredentialSSHAgent || own[name].Pass {
			passed = append(passed, name)
		} else {
			injected = append(injected, name)
		}
	}
	return passed, injected
}

// CheckCredentials reports invalid elements of Credentials.
func CheckCredentials(d *Definition, own map[string]Credential) error {
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
			hosts := cmp.Or(strings.Join(set.Hosts, `", "`), `github.com", "api.github.com", "uploads.github.com`)
			return Invalid(attribute, "credentials needs a list of names in network",
				fmt.Sprintf(`write network = ["%s"]. Or set pass = true in credential %q: commands then get the value itself`, hosts, name))
		case isOwn:
			if missing := slices.DeleteFunc(slices.Clone(set.Hosts), d.reaches); len(missing) > 0 {
				return invalidf(attribute, fmt.Sprintf("add %q to network", missing[0]), "network does not reach %s, a host of credential %q, at port 443", missing[0], name)
			}
		}
	}
	return nil
}

// reaches reports whether the network is a list that permits HTTPS to a host.
func (d *Definition) reaches(host string) bool {
	rules, err := egress.ParseRules(d.Network.Names)
	return err == nil && rules.Allow(host, 443)
}

// GitHubHosts are the reachable hosts of a GitHub server, by its address.
func GitHubHosts(d *Definition, address string) ([]string, error) {
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

// A Substitute is a file that commands see in place of one of the host.
type Substitute struct {
	Path    string // of the host, resolved
	At      string // inside
	Content []byte
	Why     string
}

// TrustVariables name a file of certificates, which replaces or extends what a program trusts.
var TrustVariables = [...]string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "PIP_CERT",
	"CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "DENO_CERT", "NIX_SSL_CERT_FILE"}

// OriginAccount is why commands see an /etc/passwd with an additional line.
const OriginAccount = "your account"
