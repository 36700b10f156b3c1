package view

import (
	"slices"
	"strings"
)

// actsUnasked are directories from which a tool runs programs without a question, in a
// directory that its user trusts already, even if the directory was not there when the
// user decided. They are protected where they exist, and held at the top of a workspace
// where they do not. docs/protected.md gives the reason for each.
var actsUnasked = [...]string{".vscode", ".claude", ".codex", ".cursor", ".gemini", ".opencode", ".zed"}

// asksFirst are names by which a tool runs programs after a question, or when its user
// opens it, and files, whose place an empty directory cannot hold: the tool would fail at
// it. They are protected where they exist; a command that makes one is reported.
var asksFirst = [...]string{".envrc", ".mcp.json", ".devcontainer", ".gitmodules", ".helix", ".idea", "opencode.json", "opencode.jsonc"}

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
	return slices.Concat(actsUnasked[:], asksFirst[:], []string{"*" + workspaceFile}, shellFiles[:], homeFiles[:])
}

// ActsOnHost reports whether tools of the host act on a file or directory of that
// name, wherever in a project it lies.
func ActsOnHost(name string) bool {
	return slices.Contains(actsUnasked[:], name) || slices.Contains(asksFirst[:], name) || strings.HasSuffix(name, workspaceFile)
}

// ActingNames are the names of ActsOnHost, but for those that are known by their ending.
func ActingNames() []string { return slices.Concat(actsUnasked[:], asksFirst[:]) }

// givenUp are names of DefaultProtected that a definition lets commands write.
type givenUp []string

func (v *View) namesGivenUp() (list givenUp, err error) {
	known := DefaultProtected()
	for i, name := range v.in.ProtectPathsExcept {
		name = strings.TrimSuffix(name, "/")
		if !slices.Contains(known, name) {
			return nil, invalidf(sprint("protect_paths_except[%d]", i), "choose among "+strings.Join(known, ", "), "%q is not protected by default, or cannot be given up", name)
		}
		list = append(list, name)
		v.Remarks = append(v.Remarks, sprint("protect_paths_except: a command can write %s, which tools of the host take for instructions", name))
	}
	if v.gitWritable {
		list = append(list, ".gitmodules")
	}
	return list, nil
}

func (g givenUp) has(name string) bool {
	return slices.Contains(g, name) || strings.HasSuffix(name, workspaceFile) && slices.Contains(g, "*"+workspaceFile)
}
