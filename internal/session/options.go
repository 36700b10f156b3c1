package session

import (
	"errors"
	"time"

	"github.com/sbxhost/sbxhost/internal/sessiondir"
)

// Options say what commands share. The zero value gives a Host a session
// of its own: a private directory, made at the first command and removed by
// Close, that keeps what commands write to their home, to the workspace's extra
// readable roots and to toolchains. Nothing of that is seen by another Host.
//
// Commands of definitions that differ in Credentials share the workspace and
// WorkspaceOptions.Temp, and nothing else: what a command leaves in its home, such
// as a ~/.bashrc, or in a toolchain's cache, would run in the next one that has
// credentials.
//
// The directory is made in $XDG_CACHE_HOME/sbxhost/sessions, or in ~/.cache, of
// Options.Environ. Where it cannot be, Report.Degraded says so and every command
// starts anew; only a Name and WorkspaceOptions.Temp cannot do without.
//
// What an engine keeps in memory it caps at Limits.TempSize. The home of a session
// with a Name and the directory of WorkspaceOptions.Temp are on a disk instead, where
// nothing holds a TempSize: Limits.Enforce has to allow that.
//
// A caller that is root, for commands that run as the owner of the workspace,
// has it in /var/cache/sbxhost/UID: that is neither the user's, who could lead
// root astray by symlinks, nor closed to the user as root's home is.
type Options struct {
	// Name makes the session one that Hosts of this user share, at once and one
	// after another, if they work on the same workspace. It is kept until
	// RemoveSession, or until nobody has used it for seven days. Letters,
	// digits, ".", "_" and "-", at most 64, the first a letter or digit.
	Name string
	// OneShot says that the Host runs one command and so shares nothing, which
	// starts it faster: there is no session unless something is to be
	// written to it.
	OneShot bool
	// Each says that commands share nothing though the Host runs many, as a server does
	// for programs that know nothing of one another: each has a session of its own. It implies OneShot.
	// WorkspaceOptions.Temp, a review and Definition.Session.Processes fail with ErrNoSession.
	Each bool
	// Dir is where directories of sessions are made, an absolute path that is
	// this user's alone to write. Empty means the place above.
	Dir string
}

// Info describes a named session that there is.
type Info struct {
	sessiondir.Info
	UID  uint32 // whom its commands run as
	Size int64  // bytes on its file system
}

// A Process is one that commands run, or have left running, in a session with processes.
type Process struct {
	PID     int // as commands see it
	HostPID int
	Parent  int // as commands see it; 1 is the session itself
	Args    []string
	Started time.Time
	Memory  int64 // bytes that are resident
}

// ErrNoSession is the error of what needs a session that Options.Each forbids.
var ErrNoSession = errors.New("commands are to share something, and this host has a session for each")

// ErrClosed is returned by what needs a Host that was closed.
var ErrClosed = errors.New("host is closed")
