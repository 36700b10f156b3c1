package view

import (
	"errors"
	"fmt"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

// Facts are what a table depends on of the machine. For one table the same
// question has the same answer.
type Facts interface {
	// Follow walks along an absolute path of the host and its symlinks.
	Follow(path string) Way
	// Unsearchable gives the outermost directory above a path without symlinks that
	// the user whom commands run as cannot search; "" where there is none.
	// Nothing can be mounted beneath it as that user.
	Unsearchable(path string) string
	// Empty reports whether a directory has nothing in it but a repository.
	Empty(dir string) bool
	// LinksIn looks for links in a directory without symlinks in its path, and in those in it
	// that are no work trees of git's.
	LinksIn(dir string) Links
	// Repository says how git lies in a directory, where commands can write to
	// others.
	Repository(dir string, writable []string) Repository
	// WorkTrees is GitLayout.WorkTrees.
	WorkTrees(top string, layout *workspace.GitLayout) (dirs []string, all bool)
}

// A Way is where a path of the host leads.
type Way struct {
	End   string   // without symlinks; what is missing of it keeps its spelling
	Links []string // the symlinks on the way, each by its resolved directory and its name
	// Targets are what each of Links says, as it is written.
	Targets []string
	Kind    Kind   // what is at End
	UID     uint32 // whose it is
	Names   uint64 // hard links of a file
	Err     error  // why it could not be followed: ErrUnsearchable, or another reason
}

// Links are those in a directory.
type Links struct {
	Symlinks []string
	Hard     bool // a file has further names
	All      bool // there are no others
}

// ErrUnsearchable is the error of a Way through a directory that the caller may not search.
var ErrUnsearchable = errors.New("permission denied")

// Kind is what lies at a path.
type Kind uint8

const (
	Absent Kind = iota
	Directory
	File // a regular one
	Socket
	Other
)

// A Repository is what git knows of a directory.
type Repository struct {
	Layout workspace.GitLayout
	// Err says that the layout is not understood. Nothing but .git is then
	// protected, as a whole.
	Err error
	// GitDirs are then those of workspace.GitDirs.
	GitDirs []string
	// GitControls is what git goes by besides the layout, by its own word.
	GitControls []GitControl
	// AskError says why git could not be asked, so that the repository is
	// read-only; nil where it was.
	AskError error
	// Shared and Settings are those of workspace.GitControls.
	Shared   bool
	Settings workspace.Settings
}

// GitControl is a file or directory by which git decides what it runs.
type GitControl struct {
	Path        string // absolute, as it is spelled
	Description string // for people: "core.hooksPath"
	File        bool   // what holds its place is a file
}

// Input is what a table is made for.
type Input struct {
	Definition
	Roots         []workspace.RootDir // of the workspace, the project's own first
	HideSensitive bool
	// Unisolated says that commands run without isolation, so that nothing is
	// searched or hidden.
	Unisolated bool

	User User
	// Unmapped says that an engine may have commands in a user namespace in which root is nobody.
	Unmapped bool
	// Homes are the homes of whom commands run as, by whatever account: nothing
	// of them is in the host's view.
	Homes []string

	Session   Session
	Toolchain []ToolDir // none: toolchains are not shown
	Agent     Agent
	Device    []Device   // of each of Devices
	Trust     Substitute // a file of certificates that programs trust; without a Path nothing is added
	// Accounts are files of users and groups that lack whom commands run as.
	Accounts []Substitute

	HostPaths []HostPath
	Control   []ControlSocket
	// Outer are the top levels of repositories around a root that was discovered.
	Outer []string
}

// User is whom commands run as.
type User struct {
	UID  uint32
	Home string // absolute, or empty
	// CallerHome is that of the caller, where he is another user; else Home.
	CallerHome string
	// Other is the name of a user who is not the caller; empty for the caller.
	Other string
}

// Session is where commands share files.
type Session struct {
	Dir   string   // empty: nowhere
	Home  string   // the directory that is the home inside; empty leaves that to the engine
	Bases []string // directories that hold sessions, of this host and others, resolved
}

// A ToolDir is a directory or file of a toolchain.
type ToolDir struct {
	Path     string
	Variable string // the variable that says so, or ""
	Value    string // of the variable
}

// Agent is the caller's ssh-agent.
type Agent struct {
	Socket string // resolved
	Err    error  // why there is none
}

// HostPath is what the host itself obeys, runs or remembers.
type HostPath struct {
	Path        string
	Names       []string // what counts in the directory Path; none: Path counts
	Description string
	Kind        OwnKind
	// Attribute says where a record is, or what is remembered.
	Attribute string
	File      bool // that is a file, not a directory
}

// OwnKind says what becomes of something of the host's own.
type OwnKind uint8

const (
	OwnWay     OwnKind = iota // as it is spelled: no command may lead it elsewhere
	OwnConfig                 // a file that is never writable
	OwnVetted                 // likewise, but of another text nothing is obeyed
	OwnProgram                // the host may run it outside of sandboxes, if it is there
	OwnRecord                 // of the host's decisions; it is made where commands could make it
	OwnPlace                  // the host would run, or obey, what lies at these names
	OwnCommand                // likewise, but they matter in what bind_paths shows alone
	OwnEngine                 // where an engine comes from that is not installed with the host
	OwnState                  // the host remembers in it: hidden
)

// A ControlSocket is one that whoever can connect to it gets more by than any
// sandbox holds.
type ControlSocket struct {
	Path  string // one that ends in a slash is a directory of sockets
	Gives string // what it would give away
	// Always says that directories above it are refused even while it is not
	// there: the service may be started any time.
	Always bool
	// OnRequest says that it can be had by its name in unix_sockets.
	OnRequest bool
}

// Invalid is an ErrInvalidSpec that names an attribute.
func Invalid(attribute, message, hint string) error {
	return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: attribute, Message: message, Hint: hint}
}

func invalidf(attribute, hint, format string, args ...any) error {
	return Invalid(attribute, fmt.Sprintf(format, args...), hint)
}
