package seatbelt

import (
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// Other names of what is hidden or kept reach it no more than its own does. The
// control of each is a file beside it, which is reachable by the same kind of name.
func TestOtherNamesWidenNothing(t *testing.T) {
	t.Parallel()
	spec := project()
	spec.Table = append(spec.Table, hidden("/Users/me/p/Café"), hidden("/Users/me/p/disk.key"))
	w := modelled(t, spec, shared.Command{})
	w.files = sbplFiles{
		Entries: []string{
			"/Users", "/Users/me", "/Users/me/p", "/Users/me/p/.env", "/Users/me/p/secrets", "/Users/me/p/secrets/key", "/Users/me/p/Café",
			"/Users/me/p/disk.key", "/Users/me/p/open", "/Users/me/.ssh", "/Users/me/.ssh/id", "/Users/me/p/.envrc", "/Users/me/p/.git", "/Users/me/p/.git/hooks",
		},
		Links: map[string]string{
			"/Users/me/p/l1": "secrets", "/Users/me/p/l2": "/Users/me/.ssh", "/Users/me/p/l3": "/System/Volumes/Data/Users/me/p/.env", "/Users/me/p/ok": "open",
			private.temp + "/l": "/Users/me/p/secrets/key",
		},
		Volume: map[string]string{"/.vol/16777220/11": "/Users/me/p/secrets", "/.vol/16777220/12": "/Users/me/.ssh/id", "/.vol/16777220/13": "/Users/me/p/open"},
	}
	for _, name := range []string{
		"/Users/me/p/.env", "/Users/me/p/.ENV", "/users/me/P/.env", "/Users/me/p/x/../.env", "/Users/me/p/l3", "/System/Volumes/Data/Users/me/p/.env",
		"/Users/me/p/secrets/key", "/Users/me/p/SECRETS/key", "/Users/me/p/ſecretſ/key", "/Users/me/p/l1/key", private.temp + "/l", "/.vol/16777220/11/key",
		"/Users/me/p/Café", "/Users/me/p/Cafe\u0301", "/Users/me/p/CAFE\u0301", "/Users/me/p/dis\u212a.key",
		"/Users/me/p/.env/x", "/Users/me/p/deep/er/.env.local",
		"/Users/me/.ssh/id", "/Users/me/p/l2/id", "/.vol/16777220/12", "/System/Volumes/Data/Users/me/.ssh/id", "/Users/other/x",
	} {
		for _, operation := range append(append([]string{"file-read-metadata"}, readOperations...), writeOperations...) {
			if w.file(operation, name) {
				t.Errorf("%s of %q (%q) is allowed", operation, name, w.files.Resolve(name, true))
			}
		}
	}
	for _, name := range []string{"/Users/me/p/open", "/Users/me/p/OPEN", "/Users/me/p/ok", "/.vol/16777220/13", "/System/Volumes/Data/Users/me/p/open", "/Users/me/p/sub/x.env", "/Users/me/p/secret"} {
		if !w.file("file-read-data", name) || !w.file("file-write-data", name) {
			t.Errorf("control: %q is closed", name)
		}
	}
	// Names that do not exist yet are not another way to what must not be made.
	for _, name := range []string{"/Users/me/p/.git/HOOKS/pre-commit", "/Users/me/p/.envrc", "/Users/me/p/.ENVRC", "/Users/me/p/.vscode/x", "/Users/me/p/.VSCODE", "/Users/me/p/.v\u017fcode", "/Users/me/p/.vſcode/tasks.json"} {
		for _, operation := range append([]string{"file-write-create"}, writeOperations...) {
			if w.file(operation, name) {
				t.Errorf("%s of %q is allowed", operation, name)
			}
		}
	}
	if !w.file("file-write-create", "/Users/me/p/vscode") || !w.file("file-write-create", "/Users/me/p/sub/.vscode") {
		t.Error("control: nothing can be made")
	}
}

// A hard link or a clone would be a name outside of the rules, so there are none.
func TestNoFurtherNames(t *testing.T) {
	t.Parallel()
	w := modelled(t, project(), shared.Command{})
	for _, operation := range []string{"file-link", "file-clone"} {
		for _, name := range []string{"/Users/me/p/open", "/Users/me/p/.env", private.temp + "/x"} {
			if w.file(operation, name) {
				t.Errorf("%s of %s is allowed", operation, name)
			}
		}
	}
}

// What holds a hidden or kept path stays where it is, in this command and so in
// the next one.
func TestHoldersStay(t *testing.T) {
	t.Parallel()
	spec := project()
	spec.Table = append(spec.Table, hidden("/Users/me/p/a/b/key"), mount("/Users/me/p/c/d", shared.ReadOnly, "protected: x"))
	w := modelled(t, spec, shared.Command{})
	for _, name := range []string{"", "/a", "/a/b", "/a/b/key", "/c", "/c/d", "/.git", "/.git/hooks", "/A", "/config.hcl"} {
		if w.file("file-write-unlink", "/Users/me/p"+name) {
			t.Errorf("/Users/me/p%s can be renamed", name)
		}
	}
	for _, name := range []string{private.temp, private.home} {
		if w.file("file-write-unlink", name) || !w.file("file-write-unlink", name+"/x") {
			t.Errorf("%s", name)
		}
	}
	for _, name := range []string{"/x", "/a/x", "/a/b/x", "/.git/config", "/c/x"} {
		if !w.file("file-write-unlink", "/Users/me/p"+name) {
			t.Errorf("control: /Users/me/p%s cannot be renamed", name)
		}
	}
}

func TestReadOnlyWorkspace(t *testing.T) {
	t.Parallel()
	spec := project()
	spec.Table[0].Access = shared.ReadOnly
	w := modelled(t, spec, shared.Command{})
	for _, operation := range append([]string{"file-write-create", "file-write-unlink"}, writeOperations...) {
		if w.file(operation, "/Users/me/p/x") {
			t.Errorf("%s is allowed", operation)
		}
	}
	if !w.file("file-read-data", "/Users/me/p/x") || !w.file("file-write-data", private.temp+"/x") {
		t.Error("control: reading, and writing to the temporary directory")
	}
	overlay := spec
	overlay.Table = []shared.Entry{{Source: "/Users/me/p", Path: "/Users/me/p", Access: shared.Overlay, Degradable: true, Why: "workspace"}}
	if w := modelled(t, overlay, shared.Command{}); w.file("file-write-data", "/Users/me/p/x") || !w.file("file-read-data", "/Users/me/p/x") {
		t.Error("an overlay is not read-only")
	}
}

// The profile is text of one alphabet, whatever a Spec holds.
func FuzzProfileText(f *testing.F) {
	f.Add(`/Users/me/q"`, `**/*.pem`, "bind_paths[0]")
	f.Add("/Users/me/\n(allow default)", `a\"b`, "x\n(allow default)")
	f.Add("/Users/me/é", "é\u0301/[!a]", ";")
	f.Add(`/Users/me/#"`, `"#"`, `"`)
	f.Add("/Users/me/\\", `\\`, `\`)
	f.Fuzz(func(t *testing.T, path, name, origin string) {
		spec := shared.Spec{
			Table: []shared.Entry{{Source: path, Path: path, Access: shared.ReadWrite, Why: origin}, mount("/Users/me/ws", shared.ReadWrite, "workspace"),
				hidden("/Users/me/ws/h/" + name), mount("/Users/me/ws/k/"+name, shared.ReadOnly, "protected: x")},
		}
		if spec.Validate() != nil {
			return
		}
		p, err := newPolicy(&spec, &shared.Command{})
		if err != nil {
			return
		}
		profile, err := compile(p, private)
		if err != nil {
			return
		}
		if i := strings.IndexFunc(profile.text, func(r rune) bool { return r != '\n' && (r < ' ' || r > '~') }); i >= 0 {
			t.Fatalf("%q is not plain text", profile.text[i:])
		}
		model, err := parseSBPL(profile.text, profile.values())
		if err != nil {
			t.Fatalf("%v\n%s", err, profile.text)
		}
		for _, a := range []sbplAccess{
			{Operation: "file-write-data", Path: "/private/etc/hosts"}, {Operation: "file-write-data", Path: "/Users/you/x"},
			{Operation: "mach-lookup", Service: "com.apple.SecurityServer"}, {Operation: "network-outbound", SocketDomain: "AF_INET", Host: "example.com", Port: "443"},
			{Operation: "appleevent-send"}, {Operation: "job-creation"},
		} {
			if paths.Inside(path, a.Path) && a.Path != "" {
				continue
			}
			if model.Decide(asDocumented, a).Allow || model.Decide(byLastMatch, a).Allow {
				t.Fatalf("%+v is allowed\n%s", a, profile.text)
			}
		}
	})
}
