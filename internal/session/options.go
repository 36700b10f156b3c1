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
	// Name makes a session that one Host after another of this user can have, if they work on the
	// same workspace. A Host has it from its first command until Close; the commands of others fail
	// with ErrSessionInUse, which names the process. The session lasts until RemoveSession, or until
	// nobody has used it for seven days. A name has at most 64 letters, digits, ".", "_" and "-", and
	// begins with a letter or digit.
	Name string
	// OneShot says that the Host runs one command, so nothing is shared. The command starts faster,
	// because the Host makes a session only if the command can write to it.
	OneShot bool
	// Each gives each command a session of its own, so that commands share nothing although the
	// Host runs many, as in a server for unrelated programs. It implies OneShot.
	// WorkspaceOptions.Temp, a review and Definition.Session.Processes fail.
	Each bool
	// Dir is the directory in which directories of sessions are made: an absolute path that only
	// this user can write to. Empty means sbxhost/sessions in $XDG_CACHE_HOME or ~/.cache or, for a
	// root caller whose commands run as the owner of the workspace, /var/cache/sbxhost/UID.
	Dir string
}

// Info describes a named session.
type Info struct {
	sessiondir.Info
	UID  uint32 `json:"uid"`  // the user of its commands
	Size int64  `json:"size"` // bytes on its file system; -1 if unknown
}

// A Process is one of a command, or left by one, in a session with processes.
type Process struct {
	PID     int       `json:"pid"` // as commands see it
	HostPID int       `json:"host_pid"`
	Parent  int       `json:"parent"` // as commands see it; 1 is the session itself
	Args    []string  `json:"args"`
	Started time.Time `json:"started"`
	Memory  int64     `json:"memory"` // resident bytes
}

// ErrNoSession is the error of an option that needs a session, with Options.Each.
var ErrNoSession = errors.New("commands must share something, but this host has a session for each command")

// ErrClosed is returned by a closed Host.
var ErrClosed = errors.New("host is closed")
