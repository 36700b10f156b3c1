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

// unaskedInstructions are paths from which a tool runs programs without a question, in a directory
// that its user already trusts, even if they appear after the user's decision. They are protected
// where they exist. The directories are also held at the top of a workspace. A file is held only in
// an existing directory: hg init fails at an empty .hg. docs/protected.md has the reason for each.
var unaskedInstructions = [...]string{".vscode", ".claude", ".codex", ".cursor", ".gemini", ".opencode", ".zed",
	".hg/hgrc", ".hg/hgrc-not-shared", ".sl/config"}

// askedInstructions are paths from which a tool runs programs after a question, or when its user
// opens them. They are protected where they exist, but not held: tools fail at an empty directory
// in the place of a file, and jj moves an empty file. The host reports a command that makes one.
var askedInstructions = [...]string{".envrc", ".mcp.json", ".devcontainer", ".gitmodules", ".helix", ".idea", "opencode.json", "opencode.jsonc",
	".devcontainer.json", ".lazygit.yml", ".hg/requires", ".hg/sharedpath",
	".jj/repo/config.toml", ".jj/workspace-config.toml", ".jj/repo/config-id", ".jj/workspace-config-id",
	storePointers[0], storePointers[1]}

// storePointers name the repositories in which jj and Sapling run git. They are deeper than the search
// for other names goes.
var storePointers = [...]string{".jj/repo/store/git_target", ".sl/store/gitdir"}

// commitInstructions are what the user's hooks may read at the next commit, and mise at the next prompt:
// it trusts a path, whatever text is there. People change them as often as their code, so they are not
// protected: the host reports a command that makes or changes one, and one that puts a symlink or file
// in the place of redirectDirs.
var commitInstructions = slices.Concat([]string{".husky", ".pre-commit-config.yaml", ".pre-commit-config.yml", "prek.toml", ".overcommit.yml", ".local-overcommit.yml",
	".config/mise/config.toml", ".config/mise.toml", ".mise/config.toml", "mise/config.toml", ".mise.toml", ".mise.local.toml", "mise.toml", "mise.local.toml"}, lefthookFiles(), redirectDirs[:])

// redirectDirs are directories of names above. A symlink in the place of one, or a file in the place
// of .jj/repo, leads to another directory: the tool obeys the names in that.
var redirectDirs = [...]string{".config", ".hg", ".jj", ".jj/repo", ".sl"}

// InstructionNames are the names of Instructions, without those of an extension.
var InstructionNames = slices.Concat(unaskedInstructions[:], askedInstructions[:], commitInstructions)

// lefthookFiles are the names of lefthook's configuration. Those with a directory come first:
// Instruction returns the first name that fits.
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

// workspaceFile is the extension of editors' workspace files: further askedInstructions.
const workspaceFile = ".code-workspace"

// shellFiles are what shells run when they start. They are protected where they exist.
var shellFiles = [...]string{
	".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile",
	".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout",
}

// homeFiles are also what programs of the host execute or obey, in a home directory.
var homeFiles = [...]string{
	".gitconfig", ".config/git", ".ssh", ".config/fish", ".config/systemd", ".local/share/systemd", ".config/autostart", ".config/environment.d",
}

// homeLinks are what agents obey in a home directory. Only links to what commands write count: to search
// the rest for more takes long, and no command writes there.
var homeLinks = append(unaskedInstructions[:], ".claude/CLAUDE.md", ".claude/settings.json", ".claude/skills", ".codex/AGENTS.md", ".codex/config.toml")

// DefaultProtected lists the names that ProtectPathsExcept may have.
func DefaultProtected() []string {
	return slices.Concat(homeLinks, askedInstructions[:], []string{"*" + workspaceFile}, shellFiles[:], homeFiles[:])
}

// Instruction returns the name of a path that tools of the host act on, anywhere in a project, as
// DefaultProtected has it, and the directory in which a tool finds it. The name is "" for other paths.
func Instruction(p string) (dir, name string) {
	if strings.HasSuffix(p, workspaceFile) {
		return path.Dir(p), "*" + workspaceFile
	}
	for _, name := range InstructionNames {
		if dir := strings.TrimSuffix(p, name); dir == "" || dir != p && strings.HasSuffix(dir, "/") {
			return path.Clean(dir), name
		}
	}
	return "", ""
}

// MayBeInstruction reports whether a path with that last name can be an Instruction. It is fast: a
// search asks about each file.
func MayBeInstruction(base string) bool {
	return strings.HasSuffix(base, workspaceFile) || instructionBases()[base]
}

// instructionBases are the last names of InstructionNames.
var instructionBases = sync.OnceValue(func() map[string]bool {
	bases := map[string]bool{}
	for _, name := range InstructionNames {
		bases[path.Base(name)] = true
	}
	return bases
})

// checkExcept reads protect_paths_except.
func (v *View) checkExcept() error {
	known := DefaultProtected()
	for i, name := range v.in.ProtectPathsExcept {
		name = strings.TrimSuffix(name, "/")
		if !slices.Contains(known, name) {
			return invalidf(fmt.Sprintf("protect_paths_except[%d]", i), "docs/protected.md has the list", "%q is not protected by default, or cannot be given up", name)
		}
		v.exceptions = append(v.exceptions, name)
		v.Remarks = append(v.Remarks, fmt.Sprintf("protect_paths_except: a command can write %s, which tools of the host obey", name))
	}
	if v.gitWritable {
		v.exceptions = append(v.exceptions, ".gitmodules")
	}
	return nil
}

// isExcepted reports whether commands may write what has a name of DefaultProtected.
func (v *View) isExcepted(name string) bool { return slices.Contains(v.exceptions, name) }

// byDefault protects a name of DefaultProtected, and holds its path.
func byDefault(dir, name string) *protection {
	return &protection{path: path.Join(dir, name), why: "by default, " + name, hold: &Hold{}, followsLinks: true}
}

// defaultProtections protect what tools of the host obey.
func (v *View) defaultProtections(trees []scan.Found) (list []*protection) {
	for _, f := range trees {
		// At the top of what commands write to, and .mcp.json also at the top of each of the user's repositories.
		dir, name := Instruction(f.Path)
		if f.Reason != scan.NameMatch || name == "" || slices.Contains(commitInstructions, name) || v.isExcepted(name) || !v.Creatable(f.Path) {
			continue
		}
		if slices.Contains(v.Tops(), dir) || name == ".mcp.json" && slices.Contains(v.repositories(trees), dir) {
			list = append(list, &protection{path: f.Path, why: "by default, " + name, followsLinks: true})
		}
	}
	for _, e := range v.entries {
		if e.Access == shared.ReadWrite && (isRoot(&e) || ofBind(e)) && v.facts.Follow(e.Source).Kind == Directory {
			list = append(list, v.defaultsAtTop(e.Source)...)
		}
	}
	for _, home := range slices.Compact([]string{v.in.Home, v.in.CallerHome}) { // login shells start there
		way := v.facts.Follow(home)
		if home == "" || way.Err != nil || way.End == "/" {
			continue
		}
		for _, name := range slices.Concat(shellFiles[:], homeFiles[:], homeLinks) {
			// A definition may bind it. Also if commands can write nothing there: a link can lead to what they
			// can write.
			if p := byDefault(way.End, name); !v.writesIn(p.path) && !v.isExcepted(name) && (!slices.Contains(homeLinks, name) || v.leadsToWritable(way.End, name)) {
				list = append(list, p)
			}
		}
	}
	return list
}

// leadsToWritable reports whether links in a home lead to what commands write, but not because the
// definition gives them the agent's directory, or this path: the links end there, too.
func (v *View) leadsToWritable(home, name string) bool {
	dir, _, _ := strings.Cut(name, "/")
	way, of := v.facts.Follow(path.Join(home, name)), v.facts.Follow(path.Join(home, dir)).End
	return len(way.Links) > 0 && (v.writer(way.End) != nil || v.replaceableLink(&way) != "") && !v.isExcepted(dir) && !slices.ContainsFunc(v.entries, func(e shared.Entry) bool {
		return e.Access == shared.ReadWrite && ofBind(e) && (e.Source == of || e.Source == way.End)
	})
}

// defaultsAtTop are the protections at the top of a directory that commands write to.
func (v *View) defaultsAtTop(dir string) (list []*protection) {
	// In an empty directory a tool may be about to make a project, and wants it empty.
	if !v.facts.Empty(dir) {
		for _, name := range unaskedInstructions {
			p, isFile := byDefault(dir, name), path.Dir(name) != "."
			if p.hold.File = isFile; !v.isExcepted(name) && (!isFile || v.facts.Follow(path.Dir(p.path)).Kind == Directory) {
				list = append(list, p)
			}
		}
	}
	for _, name := range append(storePointers[:], shellFiles[:]...) {
		way := v.facts.Follow(path.Join(dir, name))
		if !v.isExcepted(name) && (way.Kind != Absent || len(way.Links) > 0) {
			list = append(list, byDefault(dir, name))
		}
	}
	return list
}
