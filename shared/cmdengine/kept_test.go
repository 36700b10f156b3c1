package cmdengine

import (
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/testing/fields"
	"github.com/sbxhost/sbxhost/shared"
)

// What holds for all that runs in a kept session is compared by its values: of secrets, and of lists, many
// print alike.
func TestKeptComparesEachField(t *testing.T) {
	t.Parallel()
	const secret = "Network.Inject.Credentials[].Value"
	// What each sandbox has for itself.
	own := []string{"Sandbox", "Table", "BestEffort", "Home", "Prepare", "Deny", "Protect"}
	for _, renews := range []bool{false, true} {
		fields.Each(t, nil, func(path string, plain, changed *shared.Spec) {
			e := &engine{sessions: map[string]*persistentSession{}}
			var renewed []shared.Credential
			of := func(spec *shared.Spec) *sandbox {
				s := newSandbox(e, *spec, nil)
				if renews {
					s.attached.Renew = func(list []shared.Credential) { renewed = list }
				}
				return s
			}
			first := of(plain)
			k, err := e.keep(first)
			if err != nil {
				t.Fatal(err)
			}
			k.begun = first
			_, err = e.keep(of(changed))
			field, _, _ := strings.Cut(path, "[")
			field, _, _ = strings.Cut(field, ".")
			switch {
			case path == "Session.ID": // another session
			case slices.Contains(own, field), renews && path == secret:
				if err != nil {
					t.Errorf("%s: %v", path, err)
				}
			case err == nil:
				t.Errorf("%s is another, and commands go on with what it was", path)
			}
			if path == secret && renews && !reflect.DeepEqual(renewed, changed.Network.Inject.Credentials) {
				t.Errorf("the gate has %#v", renewed)
			}
		})
	}
	plain, changed := shared.Spec{}, shared.Spec{}
	plain.Network.Names, changed.Network.Names = []string{"a b"}, []string{"a", "b"}
	e := &engine{sessions: map[string]*persistentSession{}}
	if _, err := e.keep(newSandbox(e, plain, nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.keep(newSandbox(e, changed, nil)); err == nil {
		t.Error("two names are taken for one")
	}
}

// A gate that a sandbox with the old value begins has the new one.
func TestKeptBeginsWithTheNewestCredentials(t *testing.T) {
	t.Parallel()
	e := &engine{sessions: map[string]*persistentSession{}}
	of := func(value shared.Secret) (*sandbox, *[]shared.Credential) {
		spec := shared.Spec{}
		spec.Network.Inject.Credentials = []shared.Credential{{Hosts: []string{"a.example"}, Value: value}}
		s, has := newSandbox(e, spec, nil), new([]shared.Credential)
		s.attached.Renew = func(list []shared.Credential) { *has = list }
		var err error
		if s.session, err = e.keep(s); err != nil {
			t.Fatal(err)
		}
		return s, has
	}
	first, has := of("old")
	of("new")
	first.session.begin(first)
	if len(*has) != 1 || (*has)[0].Value != "new" {
		t.Errorf("%#v", *has)
	}
}

// An engine that claims session.processes and does nothing for it fails, and does not panic.
func TestKeptWithoutShared(t *testing.T) {
	t.Parallel()
	s := newSandbox(&engine{sessions: map[string]*persistentSession{}}, shared.Spec{}, nil)
	s.attached.Launch = func(*shared.Command) (*Launch, error) { return &Launch{Cmd: &exec.Cmd{}}, nil }
	if _, err := s.command(&shared.Command{}); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.session, err = s.engine.keep(s); err != nil {
		t.Fatal(err)
	}
	if _, err := s.command(&shared.Command{}); err == nil || !strings.Contains(err.Error(), "session.processes") {
		t.Error(err)
	}
}
