//go:build unix

package facts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/sessiondir"
	"github.com/sbxhost/sbxhost/internal/view"
)

// input is the input for a definition's table.
func (m *Machine) input(q *Request, look *lookup) *view.Input {
	in := &view.Input{
		Definition: q.Definition, HideSensitive: m.HideSensitive, Unisolated: q.Unisolated,
		User:      view.User{UID: m.uid(), Home: m.home(), CallerHome: m.Caller.Home},
		Session:   view.Session{Dir: q.Session.Dir, Home: q.SessionHome}, // prepare adds the bases
		Toolchain: m.toolchains, HostPaths: m.HostPaths, Outer: m.outer, GitWaits: m.gitWaits && q.Review == "", Roots: m.Workspace.Roots(), Control: m.controlSockets(),
	}
	// If the workspace's own user cannot write to it, leave it: a command could change that, and no
	// stub could hold what it would then create.
	if info, err := os.Lstat(m.Workspace.Root()); err == nil && info.Mode()&0o200 == 0 && info.Sys().(*syscall.Stat_t).Uid == in.User.UID {
		in.ReadOnly = true
	}
	if q.Filesystem == view.FilesystemHost {
		in.Homes, in.Unmapped = m.homes(), runtime.GOOS == "linux" && in.User.UID != 0
	}
	if m.Owner != nil {
		in.User.Other = m.Owner.Name
		if in.User.Other == "" {
			in.User.Other = "another user"
		}
	}
	if slices.Contains(q.Credentials, view.CredentialSSHAgent) {
		in.Agent.Socket, in.Agent.Err = m.agentSocket()
	}
	return in
}

// homes are those of the caller and of the commands' user, from HOME and from the account, and
// root's.
func (m *Machine) homes() []string {
	homes := []string{"/root"}
	for _, home := range [...]string{m.home(), m.Caller.Home, accountHome(m.Caller.UID)} {
		if filepath.IsAbs(home) && home != "/" && !slices.Contains(homes, filepath.Clean(home)) {
			homes = append(homes, filepath.Clean(home))
		}
	}
	return homes
}

// accountHome is the home directory of a user's account, or "".
func accountHome(uid int) string {
	account, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return ""
	}
	return account.HomeDir
}

// prepare makes directories that a command could otherwise make, or that must exist to be hidden:
// the host's records, its state, sessions.
func (m *Machine) prepare(v *view.View, in *view.Input, look *lookup) error {
	for _, o := range m.HostPaths {
		switch o.Kind {
		case view.OwnRecord:
			if err := makeRecord(v, &o, look); err != nil {
				return err
			}
		case view.OwnState:
			if way := look.Follow(o.Path); !o.File && way.Err == nil && way.Kind == view.Absent && v.Visible(way.End) && !v.Creatable(way.End) {
				_ = makeToHide(way.End) // an error means that nobody can make it
				look.forget()
			}
		}
	}
	for _, base := range slices.Concat(m.SessionBases, m.ReviewBases) {
		shown := v.Visible
		if slices.Contains(m.ReviewBases, base) {
			shown = v.Creatable
		}
		way := look.Follow(base)
		if way.Err == nil && way.Kind == view.Absent && shown(way.End) && !strings.HasPrefix(way.End, sessiondir.SystemBase()) {
			_ = sessiondir.MakeBase(way.End) // an error means that nobody can make it
			look.forget()
			way = look.Follow(base)
		}
		if way.Err == nil && way.Kind != view.Absent {
			in.Session.Bases = append(in.Session.Bases, way.End)
		}
	}
	return nil
}

// makeToHide makes a directory and its missing parents, with the owner of the directory above: else
// only root could use ~/.local.
func makeToHide(dir string) error {
	above := filepath.Dir(dir)
	for Follow(above).Kind == view.Absent {
		above = filepath.Dir(above)
	}
	root, err := os.OpenRoot(above)
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	st, uid, gid := info.Sys().(*syscall.Stat_t), -1, -1
	if os.Geteuid() == 0 {
		uid, gid = int(st.Uid), int(st.Gid)
	}
	name, err := filepath.Rel(above, dir)
	if err != nil {
		return err
	}
	return hostpath.MakePoint(root, name, true, 0o700, uid, gid)
}

// uid is the commands' user.
func (m *Machine) uid() uint32 {
	if m.Owner != nil {
		return m.Owner.User.UID
	}
	return uint32(m.Caller.UID)
}

// makeRecord makes a record of the host's decisions where an entry would let a command make it, and
// so approve itself.
func makeRecord(v *view.View, record *view.HostPath, look *lookup) error {
	if !v.WritableAt(look.Follow(record.Path).End) {
		return nil
	}
	defer look.forget()
	dir := record.Path
	if record.File {
		dir = filepath.Dir(dir)
	}
	err := os.MkdirAll(dir, 0o700)
	if err == nil && record.File {
		// It does not open an existing one: a fifo would block.
		var f *os.File
		if f, err = os.OpenFile(record.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			f.Close()
		} else if errors.Is(err, fs.ErrExist) {
			_, err = filepath.EvalSymlinks(record.Path)
		}
	}
	if err != nil {
		return view.Invalid(record.Attribute, fmt.Sprintf("%s is in a writable directory, and cannot be protected there: %v", hostpath.Quote(record.Path), err), "")
	}
	return nil
}
