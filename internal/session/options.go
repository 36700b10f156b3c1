package session

import (
	"errors"
	"time"

	"github.com/sbxhost/sbxhost/internal/sessiondir"
)

// Options decide what commands share. The zero value gives a Host a session of its own: a private
// directory, made with the first command and removed by Close. It keeps what commands write to
// their home, to the workspace's extra readable roots and to toolchains. No other Host sees that.
//
// Commands of definitions with different Credentials share only the workspace and
// WorkspaceOptions.Temp: a command could leave a program in its home, such as ~/.bashrc, or in a
// toolchain's cache, for the next one that has credentials.
//
// The directory is made in $XDG_CACHE_HOME/sbxhost/sessions, or in ~/.cache, of Options.Environ. If
// that is impossible, Report.Degraded says so and commands share nothing; but a Name and
// WorkspaceOptions.Temp are then errors.
//
// Limits.TempSize limits what an engine keeps in memory. The home of a session with a Name and the
// directory of WorkspaceOptions.Temp are on a disk, where nothing enforces a TempSize:
// Limits.Enforce must permit that.
//
// For a root caller whose commands run as the owner of the workspace, the directory is in
// /var/cache/sbxhost/UID: the user cannot lead root astray there with symlinks, but can enter it,
// unlike root's home.
type Options struct {
	// Name makes the session one that Hosts of this user share, at once and one after another, if
	// they work on the same workspace. It lasts until RemoveSession, or until nobody has used it
	// for seven days. Letters, digits, ".", "_" and "-", at most 64, the first a letter or digit.
	Name string
	// OneShot says that the Host runs one command and so shares nothing, which makes it start
	// faster: there is a session only if a command can write to it.
	OneShot bool
	// Each says that commands share nothing though the Host runs many, as in a server for unrelated
	// programs: each has a session of its own. It implies OneShot. WorkspaceOptions.Temp, a review
	// and Definition.Session.Processes fail with ErrNoSession.
	Each bool
	// Dir is where directories of sessions are made, an absolute path that only this user can write
	// to. Empty means the path above.
	Dir string
}

// Info describes a named session.
type Info struct {
	sessiondir.Info
	UID  uint32 // the user of its commands
	Size int64  // bytes on its file system
}

// A Process is one of a command, or left by one, in a session with processes.
type Process struct {
	PID     int // as commands see it
	HostPID int
	Parent  int // as commands see it; 1 is the session itself
	Args    []string
	Started time.Time
	Memory  int64 // resident bytes
}

// ErrNoSession is the error of an option that needs a session, with Options.Each.
var ErrNoSession = errors.New("commands must share something, but this host has a session for each command")

// ErrClosed is returned by a closed Host.
var ErrClosed = errors.New("host is closed")
