package seatbelt

import (
	"fmt"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

// private are the directories of a command as they could be on a Mac.
var private = places{
	scratch: "/private/var/folders/zz/abc/T/seatbelt-1",
	temp:    "/private/var/folders/zz/abc/T/seatbelt-1/tmp",
	home:    "/private/var/folders/zz/abc/T/seatbelt-1/home",
}

// modelled compiles a Spec and parses the profile with the model.
func modelled(t testing.TB, spec shared.Spec, cmd shared.Command) *world {
	t.Helper()
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	at := private
	if spec.Home == "" {
		at.home = ""
	}
	p, err := newPolicy(&spec, &cmd)
	if err != nil {
		t.Fatal(err)
	}
	profile, err := compile(p, at)
	if err != nil {
		t.Fatal(err)
	}
	model, err := parseSBPL(profile.text, profile.values())
	if err != nil {
		t.Fatalf("the model does not take the profile: %v\n%s", err, profile.text)
	}
	return &world{t: t, profile: model, text: profile.text, values: profile.values(), policy: p, places: at}
}

func (p *profile) values() map[string]string {
	values := map[string]string{}
	for n, path := range p.parameters {
		values[fmt.Sprint("P", n)] = path
	}
	return values
}

// world is a profile and the files that there are.
type world struct {
	t       testing.TB
	profile *sbplProfile
	text    string
	values  map[string]string // of the parameters
	policy  *policy
	places  places
	files   sbplFiles
}

// ask gives the verdict, which must not depend on which rules of precedence are
// the right ones.
func (w *world) ask(a sbplAccess) bool {
	w.t.Helper()
	documented, last := w.profile.Decide(asDocumented, a), w.profile.Decide(byLastMatch, a)
	if documented.Allow != last.Allow {
		w.t.Errorf("%s %q: %v by %v, but by the last match %v by %v", a.Operation, a.Path, documented.Allow, documented.Rule, last.Allow, last.Rule)
	}
	return documented.Allow
}

// file asks about a name of a file, which is resolved first.
func (w *world) file(operation, name string) bool {
	w.t.Helper()
	return w.ask(sbplAccess{Operation: operation, Path: w.files.Resolve(name, true)})
}

// Operations in groups of those that are granted and taken away together.
var (
	readOperations  = []string{"file-read-data", "file-read-xattr", "file-map-executable", "process-exec", "process-exec-interpreter"}
	writeOperations = []string{"file-write-data", "file-write-mode", "file-write-owner", "file-write-times", "file-write-xattr"}
	neverOperations = []string{"file-link", "file-clone", "file-mknod", "file-mount", "file-unmount", "file-write-setugid", "file-issue-extension", "file-ioctl"}
)

func mount(path string, kind shared.Access, origin string) shared.Entry {
	return shared.Entry{Source: path, Path: path, Access: kind, Why: origin}
}

// project is a Spec such as a definition for a Mac gives.
func project() shared.Spec {
	return shared.Spec{
		Sandbox: "mac",
		Home:    "/Users/me",
		Table: []shared.Entry{
			mount("/Users/me/p", shared.ReadWrite, "workspace"),
			mount("/Users/me/.gitconfig", shared.ReadOnly, "bind_paths[0]"),
			mount("/Users/me/p/.git/hooks", shared.ReadOnly, "protected: git hooks"),
			mount("/Users/me/p/config.hcl", shared.ReadOnly, "protected: the configuration in force"),
			mount("/Users/me/p/.envrc", shared.ReadOnly, "protected: protect_paths"),
			mount("/Users/me/p/.vscode", shared.ReadOnly, "protected: instructions"),
			hidden("/Users/me/p/.env"), hidden("/Users/me/p/deep/er/.env.local"), hidden("/Users/me/p/secrets"),
		},
	}
}
