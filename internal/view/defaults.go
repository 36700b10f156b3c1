package view

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/sbxhost/sbxhost/internal/scan"
	"github.com/sbxhost/sbxhost/shared"
)

// actsWithoutAsking are directories from which a tool runs programs without a question, in a
// directory that its user already trusts, even if they appear after the user's decision. They are
// protected where they exist, and held at the top of a workspace. A file with a directory in its
// name is held only in an existing directory: hg init fails at an empty .hg. docs/protected.md has
// the reason for each.
var actsWithoutAsking = [...]string{".vscode", ".claude", ".codex", ".cursor", ".gemini", ".opencode", ".zed",
	".hg/hgrc", ".hg/hgrc-not-shared"}

// actsAfterAsking are directories from which a tool runs programs after a question, or when its
// user opens them; and files: the tool would fail at an empty directory that holds their path, as jj
// would at an empty file, which it moves. They are protected where they exist; the host reports a
// command that makes one.
var actsAfterAsking = [...]string{".envrc", ".mcp.json", ".devcontainer", ".gitmodules", ".helix", ".idea", "opencode.json", "opencode.jsonc",
	".lazygit.yml", ".hg/requires", ".hg/sharedpath",
	".jj/repo/config.toml", ".jj/workspace-config.toml", ".jj/repo/config-id", ".jj/workspace-config-id"}

// actsAtCommit are what hooks of the user's read at the next commit, if there are such hooks, and
// what people change as often as their code: the host reports a command that makes or changes one.
// So it does with a link or file in the place of leadsAway.
var actsAtCommit = slices.Concat([]string{".husky", ".pre-commit-config.yaml", ".overcommit.yml"}, lefthookFiles(), leadsAway[:])

// leadsAway are directories of names above. In the place of one there can be a link, and a file in
// that of .jj/repo, which leads to another directory: the tool obeys the names in that.
var leadsAway = [...]string{".config", ".hg", ".jj", ".jj/repo"}

// lefthookFiles are the names of lefthook's configuration. Those with a directory come first: the
// others are ends of them.
func lefthookFiles() (names []string) {
	for _, in := range [...]string{".config/", "", "."} {
		for _, name := range [...]string{"lefthook", "lefthook-local"} {
			for _, extension := range [...]string{".yml", ".yaml", ".toml", ".json", ".jsonc"} {
				names = append(names, in+name+extension)
			}
		}
	}
	return names
}

// workspaceFile is the extension of editors' workspace files, which are treated like
// actsAfterAsking.
const workspaceFile = ".code-workspace"

// shellFiles are what shells run when they start. They are protected where they exist.
var shellFiles = [...]string{
	".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile",
	".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout",
}

// homeFiles are also what programs of the host execute or obey, in a home directory.
var homeFiles = [...]string{
	".gitconfig", ".config/git", ".ssh", ".config/fish", ".config/systemd", ".config/autostart", ".config/environment.d",
}

// DefaultProtected lists the names that ProtectPathsExcept may have.
func DefaultProtected() []string {
	return slices.Concat(actsWithoutAsking[:], actsAfterAsking[:], []string{"*" + workspaceFile}, shellFiles[:], homeFiles[:])
}

// ActingName returns the end of a path that tools of the host act on, anywhere in a project: a name,
// or one with its directories. It returns "" for other paths.
func ActingName(p string) string {
	if base := path.Base(p); strings.HasSuffix(base, workspaceFile) {
		return base
	}
	for _, list := range [...][]string{actsWithoutAsking[:], actsAfterAsking[:], actsAtCommit} {
		for _, name := range list {
			if p == name || strings.HasSuffix(p, name) && p[len(p)-len(name)-1] == '/' {
				return name
			}
		}
	}
	return ""
}

// MayAct reports whether a path with that last name can have an ActingName: a search asks about each
// file.
func MayAct(base string) bool {
	return strings.HasSuffix(base, workspaceFile) || actingBases()[base]
}

// actingBases are the last names of ActingNames.
var actingBases = sync.OnceValue(func() map[string]bool {
	bases := map[string]bool{}
	for _, name := range ActingNames() {
		bases[path.Base(name)] = true
	}
	return bases
})

// actingDir is the directory in which a tool finds a path by its ActingName.
func actingDir(p string) string { return path.Clean(strings.TrimSuffix(p, ActingName(p))) }

// ActingNames are the names for ActingName, without those that it knows by extension.
func ActingNames() []string {
	return slices.Concat(actsWithoutAsking[:], actsAfterAsking[:], actsAtCommit)
}

// givenUp are names of DefaultProtected that commands may write.
type givenUp []string

func (v *View) giveUpNames() error {
	if v.in.Unisolated {
		return nil
	}
	known := DefaultProtected()
	for i, name := range v.in.ProtectPathsExcept {
		name = strings.TrimSuffix(name, "/")
		if !slices.Contains(known, name) {
			return invalidf(fmt.Sprintf("protect_paths_except[%d]", i), "docs/protected.md has the list", "%q is not protected by default, or cannot be given up", name)
		}
		v.givenUp = append(v.givenUp, name)
		v.Remarks = append(v.Remarks, fmt.Sprintf("protect_paths_except: a command can write %s, which tools of the host obey", name))
	}
	if v.gitWritable {
		v.givenUp = append(v.givenUp, ".gitmodules")
	}
	return nil
}

func (g givenUp) has(name string) bool {
	return slices.Contains(g, name) || strings.HasSuffix(name, workspaceFile) && slices.Contains(g, "*"+workspaceFile)
}

// byDefault protects a name of DefaultProtected, and holds its path.
func byDefault(dir, name string) protection {
	return protection{path: path.Join(dir, name), why: "by default, " + name, hold: &Hold{}, leads: true}
}

// defaultProtections protect what tools of the host obey.
func (v *View) defaultProtections(trees *scan.Result) (list []protection) {
	for _, f := range trees.Found {
		if name := ActingName(f.Path); f.Reason == scan.NameMatch && name != "" && !v.givenUp.has(name) && v.isGuarded(f.Path, trees) {
			list = append(list, protection{path: f.Path, why: "by default, " + name, leads: true})
		}
	}
	for _, e := range v.entries {
		if e.Access == shared.ReadWrite && (isRoot(&e) || strings.HasPrefix(e.Why, "bind_paths")) && v.facts.Follow(e.Source).Kind == Directory {
			list = append(list, v.defaultsAtTop(e.Source)...)
		}
	}
	for _, home := range v.homes() {
		list = append(list, v.defaultsInHome(home)...)
	}
	return list
}

// isGuarded reports whether such a file is protected at its path: at the top of what commands write
// to, and, if a tool obeys it only there, at the tops of repositories.
func (v *View) isGuarded(p string, trees *scan.Result) bool {
	dir := actingDir(p)
	if slices.Contains(actsAtCommit, ActingName(p)) {
		return false
	}
	at := slices.Contains(v.Tops(), dir) || path.Base(p) == ".mcp.json" && slices.Contains(v.repositories(trees), dir)
	return at && v.Creatable(p)
}

// defaultsAtTop are those at the top of a directory that commands write to.
func (v *View) defaultsAtTop(dir string) (list []protection) {
	// In an empty directory a tool may be about to make a project, and wants it empty.
	if !v.facts.Empty(dir) {
		// git clean would fail at an empty directory.
		ignored := v.facts.Repository(dir).Layout.CommonDir != ""
		for _, name := range actsWithoutAsking {
			p, inner := byDefault(dir, name), path.Dir(name) != "."
			if p.ignored = ignored && !inner; inner {
				p.hold.File = true
			}
			if !v.givenUp.has(name) && (!inner || v.facts.Follow(path.Dir(p.path)).Kind == Directory) {
				list = append(list, p)
			}
		}
	}
	for _, name := range shellFiles {
		way := v.facts.Follow(path.Join(dir, name))
		if !v.givenUp.has(name) && (way.Kind != Absent || len(way.Links) > 0) {
			list = append(list, byDefault(dir, name))
		}
	}
	return list
}

// defaultsInHome are those of a home directory, without those that a definition binds. Commands may
// be able to write only what links there lead to.
func (v *View) defaultsInHome(home string) (list []protection) {
	for _, name := range slices.Concat(shellFiles[:], homeFiles[:]) {
		if p := byDefault(home, name); !v.writesIn(p.path) && !v.givenUp.has(name) {
			list = append(list, p)
		}
	}
	return list
}

// homes are the home directories, in which login shells start, of the commands' user and of the
// caller.
func (v *View) homes() (list []string) {
	for _, home := range slices.Compact([]string{v.in.User.Home, v.in.User.CallerHome}) {
		if way := v.facts.Follow(home); home != "" && way.Err == nil && way.End != "/" {
			list = append(list, way.End)
		}
	}
	return list
}
