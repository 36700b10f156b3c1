package view

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

func TestCheckCredentials(t *testing.T) {
	t.Parallel()
	own := map[string]Credential{"npm": {Hosts: []string{"registry.npmjs.org", "npm.example.org"}}, "passed": {Pass: true}, "github-cli": {Pass: true}}
	list := func(names ...string) Network { return Network{Names: append([]string{}, names...)} }
	for name, c := range map[string]struct {
		def  Definition
		want string // the attribute, and a part of the message
	}{
		"nothing":              {Definition{}, ""},
		"own":                  {Definition{Credentials: []string{"npm"}, Network: list("registry.npmjs.org", "*.example.org")}, ""},
		"github":               {Definition{Credentials: []string{"github"}, Network: list("github.com")}, ""},
		"github without one":   {Definition{Credentials: []string{"github"}}, `credentials[0]: credentials needs a list of names in network; write network = ["github.com", "api.github.com", "uploads.github.com"].`},
		"own without one":      {Definition{Credentials: []string{"npm"}}, `credentials[0]: credentials needs a list of names in network; write network = ["registry.npmjs.org", "npm.example.org"].`},
		"the host's network":   {Definition{Credentials: []string{"npm"}, Network: Network{Host: true}}, "credentials[0]: credentials needs a list of names in network"},
		"an empty list":        {Definition{Credentials: []string{"npm"}, Network: list()}, "credentials[0]: network does not reach registry.npmjs.org"},
		"a host is missing":    {Definition{Credentials: []string{"github", "npm"}, Network: list("registry.npmjs.org", "github.com")}, "credentials[1]: network does not reach npm.example.org"},
		"another port":         {Definition{Credentials: []string{"npm"}, Network: list("registry.npmjs.org:80", "*.example.org")}, "credentials[0]: network does not reach registry.npmjs.org"},
		"a wildcard elsewhere": {Definition{Credentials: []string{"npm"}, Network: list("registry.npmjs.org", "*.npm.example.org")}, "credentials[0]: network does not reach npm.example.org"},
		"no such set":          {Definition{Credentials: []string{"pip"}, Network: list("pypi.org")}, `credentials[0]: there is no credential "pip"`},
		"an agent":             {Definition{Credentials: []string{"ssh-agent"}}, ""},
		"passed on":            {Definition{Credentials: []string{"passed", "github-cli"}}, ""},
		"twice":                {Definition{Credentials: []string{"github", "github"}, Network: list("github.com")}, "credentials[1]: \"github\" is in the list already"},
		"one token in two":     {Definition{Credentials: []string{"github", "github-cli"}, Network: list("github.com")}, "credentials[1]: another set in the list has the same token"},
		"and passed on":        {Definition{Credentials: []string{"github-cli", "github"}, Network: list("github.com")}, "credentials[1]: another set in the list has the same token"},
		"beside an agent":      {Definition{Credentials: []string{"ssh-agent", "github"}, Network: list("github.com")}, ""},
	} {
		err := CheckCredentials(&c.def, own)
		if c.want == "" != (err == nil) || err != nil && (!strings.HasPrefix(err.Error(), c.want) || !errors.Is(err, shared.ErrInvalidSpec)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestGitHubHosts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		address string
		network []string
		want    []string
	}{
		{"github.com", []string{"github.com", "*.github.com"}, []string{"github.com", "api.github.com", "uploads.github.com"}},
		{"github.com", []string{"api.github.com:443", "github.com:80"}, []string{"api.github.com"}},
		{"acme.ghe.com", []string{"*.ghe.com", "*.acme.ghe.com"}, []string{"acme.ghe.com", "api.acme.ghe.com", "uploads.acme.ghe.com"}},
		{"git.example.org", []string{"*.example.org"}, []string{"git.example.org"}},
		{"git.example.org:8443", []string{"*.example.org"}, nil},
		{"github.com", []string{"example.org"}, nil},
	} {
		d := Definition{Network: Network{Names: c.network}}
		if got, err := GitHubHosts(&d, c.address); !slices.Equal(got, c.want) || (err != nil) != (c.want == nil) {
			t.Errorf("%s with %q: %q, %v", c.address, c.network, got, err)
		}
	}
}

// No placeholder has another one in it, or the wrong one would be replaced.
func TestPlaceholder(t *testing.T) {
	t.Parallel()
	names := []string{"T", "TOKEN", "TOKEN_2", "A_TOKEN"}
	for _, a := range names {
		for _, b := range names {
			if a != b && strings.Contains(Placeholder(a), Placeholder(b)) {
				t.Errorf("%s is in %s", b, a)
			}
		}
	}
}
