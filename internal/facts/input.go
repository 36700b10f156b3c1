//go:build unix

package facts

import (
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/sessiondir"
	"github.com/sbxhost/sbxhost/internal/view"
)

// input is the input for a definition's table.
func (m *Machine) input(q *Request) *view.Input {
	in := &view.Input{
		Definition: q.Definition, HideSensitive: m.HideSensitive, Unisolated: q.Unisolated,
		UID: m.uid(), Home: m.home(), CallerHome: m.Caller.Home,
		SessionDir: q.Session.Dir, SessionHome: q.SessionHome, // prepare adds the bases
		Toolchain: m.toolchains, HostPaths: m.HostPaths, Outer: m.Outer, Written: m.Written, GitWaits: m.gitWaits && q.Review == "", Roots: m.Workspace.Roots(), Control: m.controlSockets(),
	}
	// Read-only if its user may not write to the workspace: a command could change the mode, and no stub
	// could hold what it would then create.
	if info, err := os.Lstat(m.Workspace.Root()); err == nil && info.Mode()&0o200 == 0 && info.Sys().(*syscall.Stat_t).Uid == in.UID {
		in.ReadOnly = true
	}
	if q.Filesystem == view.FilesystemHost {
		in.Homes, in.Unmapped = m.homes(), runtime.GOOS == "linux" && in.UID != 0
	}
	return in
}

// homes are the home directories of the caller, also by its account, of the commands' user, and of root.
func (m *Machine) homes() (homes []string) {
	account, err := user.LookupId(strconv.Itoa(m.Caller.UID))
	if err != nil {
		account = &user.User{}
	}
	for _, home := range [...]string{"/root", m.home(), m.Caller.Home, account.HomeDir} {
		if filepath.IsAbs(home) && home != "/" && !slices.Contains(homes, filepath.Clean(home)) {
			homes = append(homes, filepath.Clean(home))
		}
	}
	return homes
}

// prepare makes what must exist to be hidden: the host's state, and directories of sessions and reviews,
// but none of another user's.
func (m *Machine) prepare(v *view.View, in *view.Input, look *lookup) {
	hidden := func(dir string, shown func(string) bool) view.Way {
		way := look.Follow(dir)
		if way.Err == nil && way.Kind == view.Absent && shown(way.End) && !paths.Inside(sessiondir.SystemBase(), way.End) {
			if at, err := hostpath.Resolve("/", dir, func() []string { return look.writable }); err == nil { // no command, nor another user, leads there
				_ = hostpath.MakePrivate(m.Caller.Home, 0o700) // a command could make a missing one
				_ = hostpath.MakePrivate(at, 0o700)            // if the host cannot make it, no command can
				look.forget()
				way = look.Follow(dir)
			}
		}
		return way
	}
	for _, o := range m.HostPaths {
		switch way := look.Follow(o.Path); {
		case o.File && way.Kind == view.Absent && v.WritableAt(way.End):
			if fd, err := hostpath.OpenOrMake(way.End, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC); err == nil {
				unix.Close(fd)
				look.forget()
			}
		case o.Kind == view.HostState && !o.File:
			hidden(o.Path, func(p string) bool { return v.Visible(p) && !v.Creatable(p) })
		}
	}
	table, _ := look.mounts()
	seen := mountsIn(table, look.trees...)
	for _, base := range slices.Concat(m.SessionBases, m.ReviewBases) {
		shown := v.Visible
		if slices.Contains(m.ReviewBases, base) {
			shown = v.Creatable
		}
		if way := hidden(base, shown); way.Kind != view.Absent {
			in.SessionBases = append(append(in.SessionBases, way.End), otherPaths(table, seen, way.End)...)
		}
	}
}
