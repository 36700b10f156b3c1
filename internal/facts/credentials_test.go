package facts

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/env"
	"github.com/sbxhost/sbxhost/internal/view"
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

// A set of the library's that names no header is for Authorization, and each of its variables has a placeholder,
// which replaces a value of the caller's, also if the set does not say what is secret in it.
func TestInjectHeader(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	m := tr.machine(t)
	m.Caller.Environ = NewEnvironment([]string{"XDG_CACHE_HOME=" + tr.base + "/kept"})
	m.Config.Credentials = map[string]view.Credential{"npm": {Hosts: []string{"npm.example"}, Placeholder: "x", Value: "secret", Env: map[string]shared.Secret{"SET": "secret", "NAMED": ""}}}
	d := view.Definition{Credentials: []string{"npm"}, Network: view.Network{Names: []string{"npm.example"}}}
	out, err := m.resolve(t.Context(), "s", d)
	if err != nil || len(out.Inject.Credentials) != 1 || out.Inject.Credentials[0].Header != "Authorization" {
		t.Fatalf("%v, %+v", err, out)
	}
	in, _ := m.EnvInput(t.Context(), out, &d, nil, false)
	for _, name := range []string{"SET", "NAMED"} {
		if !slices.ContainsFunc(in.Credentials, func(v env.Secret) bool { return v.Name == name && v.Value == view.Placeholder(name) }) {
			t.Errorf("%s is not in %+v", name, in.Credentials)
		}
	}
}

// Only what is missing is told to be.
func TestInjectUnset(t *testing.T) {
	t.Parallel()
	m := newTree(t).machine(t)
	m.Config.Credentials = map[string]view.Credential{"npm": {Hosts: []string{"npm.example"}, Placeholder: "x", Env: map[string]shared.Secret{"SET": "secret", "UNSET": ""}}}
	d := view.Definition{Credentials: []string{"npm"}, Network: view.Network{Names: []string{"npm.example"}}}
	out, err := m.resolve(t.Context(), "s", d)
	if err != nil {
		t.Fatal(err)
	}
	const want = "credentials: npm: UNSET not set, so commands are not authenticated"
	if _, notes := m.EnvInput(t.Context(), out, &d, nil, false); !slices.Equal(notes, []string{want}) {
		t.Errorf("%q", notes)
	}
}

// A credential that is passed on needs no network, and nothing is put into requests for it.
func TestCredentialIsPassed(t *testing.T) {
	t.Parallel()
	m := newTree(t).machine(t)
	m.Config.Credentials = map[string]view.Credential{"npm": {Pass: true, Value: "Bearer secret", Env: map[string]shared.Secret{"SET": "secret"}}}
	d := view.Definition{Credentials: []string{"npm"}}
	out, err := m.resolve(t.Context(), "s", d)
	if err != nil || len(out.Inject.Credentials) != 0 {
		t.Fatalf("%v, %+v", err, out)
	}
	in, _ := m.EnvInput(t.Context(), out, &d, nil, false)
	if len(in.Credentials) != 1 || in.Credentials[0].Name != "SET" || in.Credentials[0].Value != "secret" || len(in.Withheld) != 0 {
		t.Errorf("%+v, withheld %d", in.Credentials, len(in.Withheld))
	}
	m.Config.Credentials = nil
	if _, err := m.resolve(t.Context(), "s", d); err == nil {
		t.Error("a credential that there is not is passed on")
	}
}

// Root, whose commands run as another user, cannot start an agent for them.
func TestAgentHint(t *testing.T) {
	t.Parallel()
	m := newTree(t).machine(t)
	m.Owner = &Owner{User: shared.User{UID: 987654}}
	_, err := m.resolve(t.Context(), "s", view.Definition{Credentials: []string{view.CredentialSSHAgent}})
	if e, ok := errors.AsType[*shared.Error](err); !ok || e.Attribute != "credentials[0]" || !strings.Contains(e.Hint, "run as its user") {
		t.Errorf("%+v", err)
	}
}
