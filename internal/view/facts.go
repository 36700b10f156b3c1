package view

import (
	"errors"
	"fmt"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

// Facts describe the machine for a table. During the making of one table, the same question has the
// same answer.
type Facts interface {
	// Follow walks along an absolute path of the host and its symlinks.
	Follow(path string) Way
	// Unsearchable returns the outermost directory above a path without symlinks that the commands'
	// user cannot search, or "". This user can mount nothing beneath it.
	Unsearchable(path string) string
	// Empty reports whether a directory has nothing in it except a repository.
	Empty(dir string) bool
	// LinksIn finds links in a directory, whose path has no symlinks, and in its subdirectories
	// that are no git directories, nor worktrees of the workspace's repositories.
	LinksIn(dir string) Links
	// Repository describes git's files in a directory.
	Repository(dir string) Repository
	// UserControls are Workspace.UserControls.
	UserControls() []workspace.GitControl
	// Around is Workspace.Around.
	Around(dir string) []string
	// WorkTrees is GitLayout.WorkTrees, of the repository in a directory.
	WorkTrees(top string) workspace.WorkTrees
}

// A Way is where a path of the host leads.
type Way struct {
	End     string   // without symlinks; missing components keep their spelling
	Links   []string // the symlinks on the way, each as its resolved directory and its name
	DotDots []string // the directories that a ".." on the way leaves
	Kind    Kind     // of End, Absent with an Err; even if a directory that a ".." leaves is missing: a command could make that
	UID     uint32   // the owner
	Names   uint64   // hard links of a file
	Err     error    // why it could not be followed: ErrUnsearchable, or another reason
}

// hasNames reports whether it leads to a file that commands may write by another name.
func (w *Way) hasNames() bool { return w.Kind == File && w.Names > 1 }

// Links are the links in a directory.
type Links struct {
	Symlinks []string
	Hard     bool // a file has other names
	All      bool // the list is complete
}

// ErrUnsearchable is the error of a Way through a directory that the caller may not search.
var ErrUnsearchable = errors.New("permission denied")

// Kind is the kind of file at a path, by the system's number: the highest four bits of its mode.
type Kind uint8

const (
	Absent     Kind = 0
	CharDevice Kind = 2
	Directory  Kind = 4
	File       Kind = 8 // a regular one
	Socket     Kind = 12
)

// A Repository describes git's files in a directory.
type Repository struct {
	Layout workspace.GitLayout
	// Err says why the layout is not understood. Then only .git is protected, as a whole.
	Err error
	// GitDirs are then the git and common directories of workspace.PointedLayouts.
	GitDirs []string
	// GitControls are what git obeys besides the layout, as git reports it. If git could not be
	// asked, the repository is read-only.
	workspace.GitControls
	// Hint says what to do if git could not be asked for lack of memory, disk or the like; else empty.
	Hint string
}

// A ToolDir is a directory or file of a toolchain.
type ToolDir struct {
	Path     string
	Variable string // the variable that names it, if commands may have it; or ""
}

// HostPath is a path that the host itself obeys, runs or stores state in.
type HostPath struct {
	Path        string
	Names       []string // what counts in the directory Path; empty means Path itself
	Description string
	Kind        HostPathKind
	// Attribute is the attribute or variable that can move a HostState.
	Attribute string
	File      bool // a file, not a directory
}

// HostPathKind says what happens to a path of the host's own.
type HostPathKind uint8

const (
	HostConfig        HostPathKind = iota // a file that is never writable
	HostCheckedConfig                     // the same, but the host obeys only a text that a person has trusted
	HostNames                             // programs or files with Names, which the host would run or obey
	HostPathNames                         // the same, but protected only in bind_paths: a directory of PATH
	HostDir                               // a directory of an engine that is not installed with the host, or a second mount of what commands write: nothing in that is protected by its path
	HostState                             // state of the host: hidden
)

// A ControlSocket gives more than any sandbox permits to a process that connects to it.
type ControlSocket struct {
	Path  string // with a slash at its end, a directory of sockets
	Gives string // what it would give
	// Always says that directories above it are refused even if it does not exist: the service may
	// start at any time.
	Always bool
	// OnRequest says that unix_sockets may name it.
	OnRequest bool
}

// Invalid is an ErrInvalidSpec that names an attribute.
func Invalid(attribute, message, hint string) error {
	return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: attribute, Message: message, Hint: hint}
}

func invalidf(attribute, hint, format string, args ...any) error {
	return Invalid(attribute, fmt.Sprintf(format, args...), hint)
}
