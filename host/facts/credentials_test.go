package facts

import (
	"slices"
	"testing"

	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/shared"
)

func TestGitHubHost(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]string{
		"":                          "github.com",
		"https://github.com":        "github.com",
		"https://ghe.example:8443/": "ghe.example:8443",
		"http://github.com":         "",
		"https://":                  "",
		"https://a@github.com":      "",
		"https://github.com/path":   "",
		"github.com":                "",
		"https://h/?q":              "",
		"https://h\nx":              "",
		"https://*.example":         "",
		"https://*":                 "",
	} {
		got, err := gitHubHost(server)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, error %v", server, got, err)
		}
	}
}

// A set of the library's that names no header is for Authorization.
func TestInjectHeader(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	m := tr.machine(t)
	m.Caller.Environ = []string{"XDG_CACHE_HOME=" + tr.base + "/kept"}
	m.Config.Credentials = map[string]view.Credential{"npm": {Hosts: []string{"npm.example"}, Placeholder: "x", Value: "secret", Env: map[string]shared.Secret{"SET": "secret"}}}
	out, err := m.resolve(t.Context(), "s", view.Definition{InjectCredentials: []string{"npm"}, Network: view.Network{Names: []string{"npm.example"}}})
	if err != nil || len(out.Inject.Credentials) != 1 || out.Inject.Credentials[0].Header != "Authorization" {
		t.Errorf("%v, %+v", err, out)
	}
}

// Only what is missing is told to be.
func TestInjectUnset(t *testing.T) {
	t.Parallel()
	m := newTree(t).machine(t)
	m.Config.Credentials = map[string]view.Credential{"npm": {Hosts: []string{"npm.example"}, Placeholder: "x", Env: map[string]shared.Secret{"SET": "secret", "UNSET": ""}}}
	out, err := m.resolve(t.Context(), "s", view.Definition{InjectCredentials: []string{"npm"}, Network: view.Network{Names: []string{"npm.example"}}})
	const want = "inject_credentials: npm: UNSET not set, so that commands are not authenticated"
	if err != nil || !slices.Contains(out.Notes, want) {
		t.Errorf("%v, %+v", err, out)
	}
}
