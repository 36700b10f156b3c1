package view

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/scan"
	"github.com/sbxhost/sbxhost/shared"
)

// actsWithoutAsking are directories from which a tool runs programs without a question, in a
// directory that its user trusts already, even if the directory was not there when the
// user decided. They are protected where they exist, and held at the top of a workspace
// where they do not. docs/protected.md gives the reason for each.
var actsWithoutAsking = [...]string{".vscode", ".claude", ".codex", ".cursor", ".gemini", ".opencode", ".zed"}

// actsAfterAsking are names by which a tool runs programs after a question, or when its user
// opens it, and files, whose place an empty directory cannot hold: the tool would fail at
// it. They are protected where they exist; a command that makes one is reported.
var actsAfterAsking = [...]string{".envrc", ".mcp.json", ".devcontainer", ".gitmodules", ".helix", ".idea", "opencode.json", "opencode.jsonc"}

// workspaceFile ends the names of editors' files of workspaces, which are like asksFirst.
const workspaceFile = ".code-workspace"

// shellFiles are what shells run when they start. They are protected where they
// exist, and held in a home directory: no shell reads them anywhere else.
var shellFiles = [...]string{
	".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile",
	".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout",
}

// homeFiles are what programs of the host execute or obey, and lie in a home
// directory. They are protected there, whatever of it is bound, unless somebody
// has bound them themselves.
var homeFiles = [...]string{
	".gitconfig", ".config/git", ".ssh", ".config/fish", ".config/systemd", ".config/autostart", ".config/environment.d",
}

// DefaultProtected lists the names that ProtectPathsExcept can give up.
func DefaultProtected() []string {
	return slices.Concat(actsWithoutAsking[:], actsAfterAsking[:], []string{"*" + workspaceFile}, shellFiles[:], homeFiles[:])
}

// ActsOnHost reports whether tools of the host act on a file or directory of that
// name, wherever in a project it lies.
func ActsOnHost(name string) bool {
	return slices.Contains(actsWithoutAsking[:], name) || slices.Contains(actsAfterAsking[:], name) || strings.HasSuffix(name, workspaceFile)
}

// ActingNames are the names of ActsOnHost, but for those that are known by their ending.
func ActingNames() []string { return slices.Concat(actsWithoutAsking[:], actsAfterAsking[:]) }

// givenUp are names of DefaultProtected that a definition lets commands write.
type givenUp []string

func (v *View) namesGivenUp() (list givenUp, err error) {
	known := DefaultProtected()
	for i, name := range v.in.ProtectPathsExcept {
		name = strings.TrimSuffix(name, "/")
		if !slices.Contains(known, name) {
			return nil, invalidf(fmt.Sprintf("protect_paths_except[%d]", i), "choose among "+strings.Join(known, ", "), "%q is not protected by default, or cannot be given up", name)
		}
		list = append(list, name)
		v.Remarks = append(v.Remarks, fmt.Sprintf("protect_paths_except: a command can write %s, which tools of the host take for instructions", name))
	}
	if v.gitWritable {
		list = append(list, ".gitmodules")
	}
	return list, nil
}

func (g givenUp) has(name string) bool {
	return slices.Contains(g, name) || strings.HasSuffix(name, workspaceFile) && slices.Contains(g, "*"+workspaceFile)
}

// byDefault protects a name of DefaultProtected, and holds its place.
func byDefault(dir, name string) protection {
	return protection{path: path.Join(dir, name), why: "by default, " + name, hold: &Hold{}, leads: true}
}

// defaultProtections are what tools of the host take for instructions.
func (v *View) defaultProtections(trees *scan.Result) (list []protection) {
	for _, f := range trees.Found {
		if name := path.Base(f.Path); f.Reason == scan.NameMatch && !v.givenUp.has(name) && v.isGuarded(f.Path, trees) {
			list = append(list, protection{path: f.Path, why: "by default, " + name, leads: true})
		}
	}
	for _, e := range slices.Clone(v.entries) {
		chosen := e.Why == "workspace" || strings.HasPrefix(e.Why, "workspace.writable") || strings.HasPrefix(e.Why, "bind_paths")
		if e.Access == shared.ReadWrite && chosen && v.facts.Follow(e.Source).Kind == Directory {
			list = append(list, v.defaultsAtTop(e.Source)...)
		}
	}
	for _, home := range v.homes() {
		list = append(list, v.defaultsInHome(home)...)
	}
	return list
}

// isGuarded reports whether what tools act on is protected where it lies: at the top of what
// commands write to, and of the repositories there what such a tool takes from their tops alone.
func (v *View) isGuarded(p string, trees *scan.Result) bool {
	dir := path.Dir(p)
	at := slices.Contains(v.Tops(), dir) || path.Base(p) == ".mcp.json" && slices.Contains(v.repositories(trees), dir)
	return at && v.Creatable(p)
}

// defaultsAtTop are those at the top of a directory that commands write to.
func (v *View) defaultsAtTop(dir string) (list []protection) {
	// In an empty directory a project is about to be made, by tools that want
	// it empty.
	if !v.facts.Empty(dir) {
		// To git, an empty directory is one to clean up, and that fails.
		ignored := v.repository(dir).Layout.CommonDir != ""
		for _, name := range actsWithoutAsking {
			if !v.givenUp.has(name) {
				p := byDefault(dir, name)
				p.ignored = ignored
				list = append(list, p)
			}
		}
	}
	for _, name := range shellFiles {
		way := v.facts.Follow(path.Join(dir, name))
		if !v.givenUp.has(name) && (slices.Contains(v.homes(), dir) || way.Kind != Absent || len(way.Links) > 0) {
			list = append(list, byDefault(dir, name))
		}
	}
	return list
}

// defaultsInHome are those of a home directory, unless somebody has bound them.
func (v *View) defaultsInHome(home string) (list []protection) {
	for _, name := range homeFiles {
		p := byDefault(home, name)
		bound := slices.ContainsFunc(v.entries, func(e shared.Entry) bool { return e.Access == shared.ReadWrite && paths.Inside(p.path, e.Source) })
		if v.writer(p.path) != nil && !bound && !v.givenUp.has(name) {
			list = append(list, p)
		}
	}
	return list
}

// homes are the directories that login shells start in, of whom commands run as and of the caller.
func (v *View) homes() (list []string) {
	for _, home := range slices.Compact([]string{v.in.User.Home, v.in.User.CallerHome}) {
		if way := v.facts.Follow(home); home != "" && way.Err == nil && way.End != "/" {
			list = append(list, way.End)
		}
	}
	return list
}
