package docker

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/registry"
)

// hub is what Docker's own configuration calls its registry.
const hub = "https://index.docker.io/v1/"

// registryOf is the registry that an image comes from, as Docker's configuration
// names it; empty where name is none of an image.
func registryOf(name string) string {
	ref, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return ""
	}
	if domain := reference.Domain(ref); domain != "docker.io" {
		return domain
	}
	return hub
}

// registriesOf are those that a Dockerfile names images of, but for names that only
// the build makes out.
func registriesOf(dockerfile []byte) []string {
	from := regexp.MustCompile(`(?im)^[ \t]*FROM[ \t]+(?:--[^ \t\r\n]+[ \t]+)*([^ \t\r\n]+)(?:[ \t]+AS[ \t]+([^ \t\r\n]+))?`)
	copied := regexp.MustCompile(`(?im)^[ \t]*COPY[ \t][^\r\n]*--from=([^ \t\r\n]+)`)
	stages := []string{"scratch"}
	var out []string
	add := func(name string) {
		r := registryOf(name)
		_, err := strconv.Atoi(name)
		if err != nil && r != "" && !slices.Contains(stages, strings.ToLower(name)) && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	for _, m := range from.FindAllSubmatch(dockerfile, -1) {
		add(string(m[1]))
		stages = append(stages, strings.ToLower(string(m[2])))
	}
	for _, m := range copied.FindAllSubmatch(dockerfile, -1) {
		add(string(m[1]))
	}
	return out
}

// logins are what Docker's config.json knows of registries.
type logins struct {
	Auths       map[string]login  `json:"auths"`
	CredHelpers map[string]string `json:"credHelpers"`
	CredsStore  string            `json:"credsStore"`
}

type login struct {
	Auth          string `json:"auth"` // base64 of USER:PASSWORD
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

func parseLogins(raw []byte) (*logins, error) {
	var l logins
	return &l, json.Unmarshal(raw, &l)
}

// helper is the program that keeps the login for a registry, in Docker's order.
func (l *logins) helper(of string) string {
	if h := l.CredHelpers[of]; h != "" {
		return h
	}
	return l.CredsStore
}

// stored is the login that stands in the file itself.
func (l *logins) stored(of string) (registry.AuthConfig, bool) {
	entry, ok := l.Auths[of]
	for name, other := range l.Auths {
		// Older versions wrote addresses.
		if !ok && host(name) == host(of) {
			entry, ok = other, true
		}
	}
	auth := registry.AuthConfig{ServerAddress: of, IdentityToken: entry.IdentityToken, RegistryToken: entry.RegistryToken}
	if raw, err := base64.StdEncoding.DecodeString(entry.Auth); err == nil {
		user, password, _ := strings.Cut(string(bytes.TrimRight(raw, "\x00")), ":")
		auth.Username, auth.Password = user, password
	}
	return auth, ok && (auth.Username != "" || auth.IdentityToken != "" || auth.RegistryToken != "")
}

func host(address string) string {
	address = strings.TrimPrefix(strings.TrimPrefix(address, "https://"), "http://")
	address, _, _ = strings.Cut(address, "/")
	return address
}

// helped reads what a credential helper says.
func helped(of string, raw []byte) (registry.AuthConfig, bool) {
	var said struct{ Username, Secret string }
	if json.Unmarshal(raw, &said) != nil || said.Secret == "" {
		return registry.AuthConfig{}, false
	}
	auth := registry.AuthConfig{ServerAddress: of, Username: said.Username, Password: said.Secret}
	if said.Username == "<token>" {
		auth = registry.AuthConfig{ServerAddress: of, IdentityToken: said.Secret}
	}
	return auth, true
}
