package docker

import (
	"encoding/base64"
	"slices"
	"testing"

	"github.com/moby/moby/api/types/registry"
)

func TestRegistryOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"busybox": hub, "library/x:1": hub, "docker.io/x/y": hub, "index.docker.io/x/y": hub, "ghcr.io/a/b:1": "ghcr.io", "localhost:5000/x": "localhost:5000",
		"a.example/b@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855": "a.example", "": "", "UPPER": "", "a b": "",
	} {
		if got := registryOf(name); got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
}

func TestRegistriesOf(t *testing.T) {
	t.Parallel()
	got := registriesOf([]byte("# FROM comment.example/x\nARG V=1\nfrom --platform=linux/amd64 a.example/x:1 as Build\r\nRUN echo FROM no.example/x\n" +
		"FROM scratch\nFROM build AS two\nFROM $BASE\nCOPY --chown=1 --from=b.example/y /a /b\nCOPY --from=0 /a /b\nCOPY --from=two /a /b\nCOPY --from=a.example/z /a /b\n"))
	if want := []string{"a.example", "b.example"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := registriesOf([]byte("FROM x")); !slices.Equal(got, []string{hub}) {
		t.Errorf("got %q", got)
	}
}

func TestLogins(t *testing.T) {
	t.Parallel()
	encoded := base64.StdEncoding.EncodeToString([]byte("me:a:b"))
	l, err := parseLogins([]byte(`{"auths":{"a.example":{"auth":"` + encoded + `"},"https://old.example/v1/":{"auth":"` + encoded + `"},"empty.example":{},` +
		`"bad.example":{"auth":"%"},"token.example":{"identitytoken":"t"}},"credHelpers":{"h.example":"one"},"credsStore":"all"}`))
	if err != nil {
		t.Fatal(err)
	}
	for of, want := range map[string]registry.AuthConfig{
		"a.example":     {ServerAddress: "a.example", Username: "me", Password: "a:b"},
		"old.example":   {ServerAddress: "old.example", Username: "me", Password: "a:b"},
		"token.example": {ServerAddress: "token.example", IdentityToken: "t"},
	} {
		if got, ok := l.stored(of); !ok || got != want {
			t.Errorf("%s: %+v, %v", of, got, ok)
		}
	}
	for _, of := range []string{"empty.example", "bad.example", "no.example", "a.example.evil", hub, ""} {
		if got, ok := l.stored(of); ok {
			t.Errorf("%s: %+v", of, got)
		}
	}
	if l.helper("h.example") != "one" || l.helper("a.example") != "all" {
		t.Error("the wrong helper")
	}
	if got, ok := helped("x", []byte(`{"ServerURL":"x","Username":"<token>","Secret":"s"}`)); !ok || got != (registry.AuthConfig{ServerAddress: "x", IdentityToken: "s"}) {
		t.Errorf("got %+v", got)
	}
	for _, bad := range []string{"", "{}", `{"Username":"u"}`, "[]"} {
		if _, ok := helped("x", []byte(bad)); ok {
			t.Errorf("%q is taken for a login", bad)
		}
	}
}

func FuzzLogins(f *testing.F) {
	f.Add([]byte(`{"auths":{"a":{"auth":"bWU6YQ=="}},"credsStore":"x"}`), "a")
	f.Add([]byte(`{"auths":null}`), "")
	f.Fuzz(func(t *testing.T, raw []byte, of string) {
		if l, err := parseLogins(raw); err == nil {
			if auth, ok := l.stored(of); ok && auth.ServerAddress != of {
				t.Errorf("%q: a login for %q", of, auth.ServerAddress)
			}
		}
		registriesOf(raw)
	})
}
