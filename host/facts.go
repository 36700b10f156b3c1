package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/approvals"
	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/workspace"
)

// facts looks at the machine for one table, and at each path once.
type facts struct {
	ctx     context.Context // of the command that it is for
	r       *resolver
	ways    map[string]view.Way
	closed  map[string]string // by directory
	repos   map[string]view.Repository
	as      *asUser // nil: commands run as the caller, or nothing was asked yet
	failure error   // of as
}

func newFacts(ctx context.Context, r *resolver) *facts {
	return &facts{ctx: ctx, r: r, ways: make(map[string]view.Way, 128), closed: map[string]string{}, repos: map[string]view.Repository{}}
}

// Follow implements view.Facts. Most paths that are asked for lie in the same
// directories, so that each directory is walked to once.
func (f *facts) Follow(p string) view.Way {
	way, ok := f.ways[p]
	if ok {
		return way
	}
	if p == "/" || filepath.Clean(p) != p {
		way = follow("/", p)
	} else if dir := f.Follow(filepath.Dir(p)); dir.Err != nil {
		way = dir
	} else if name := filepath.Base(p); dir.Kind == view.Directory {
		way = follow(dir.End, name)
		way.Links, way.Targets = slices.Concat(dir.Links, way.Links), slices.Concat(dir.Targets, way.Targets)
	} else { // nothing lies beneath what is missing, or a file
		way = view.Way{End: filepath.Join(dir.End, name), Links: dir.Links, Targets: dir.Targets}
	}
	f.ways[p] = way
	return way
}

// forget makes f look again at what it knows of paths.
func (f *facts) forget() { clear(f.ways) }

var _ view.Facts = (*facts)(nil)

// followed is where an absolute path of the host leads.
func followed(p string) view.Way { return follow("/", p) }

// follow walks along an absolute path of the host.
func follow(from, p string) (way view.Way) {
	end, info, err := hostpath.Follow(from, p, func(link string) {
		target, _ := os.Readlink(link) // one that is gone by now is looked at again
		way.Links, way.Targets = append(way.Links, link), append(way.Targets, target)
	})
	switch way.End = end; {
	case errors.Is(err, fs.ErrPermission):
		way.Err = view.ErrClosed
	case err != nil:
		way.Err = err
	}
	if info == nil {
		return way
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		way.Kind = view.Directory
	case mode.IsRegular():
		way.Kind = view.File
	case mode&fs.ModeSocket != 0:
		way.Kind = view.Socket
	default:
		way.Kind = view.Other
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		way.UID, way.Names = st.Uid, uint64(st.Nlink)
	}
	return way
}

// Closed implements view.Facts. A caller whose commands run as himself is closed
// out of what he cannot search before it comes to this, and only root's run as
// somebody else.
func (f *facts) Closed(p string) string {
	if f.r.owner == nil || f.r.caller.uid != 0 {
		return ""
	}
	dir := filepath.Dir(p)
	if shut, ok := f.closed[dir]; ok {
		return shut
	}
	if f.as == nil && f.failure == nil {
		f.as, f.failure = becomeUser(&f.r.owner.user)
	}
	shut := ""
	if f.failure == nil && !f.as.searches(dir) {
		// The outermost one that there is, and that is to blame.
		for at := dir; at != "/"; at = filepath.Dir(at) {
			if _, err := os.Lstat(at); err == nil && !f.as.searches(at) {
				shut = at
			}
		}
	}
	f.closed[dir] = shut
	return shut
}

// close ends what f has begun, and gives the error of what it could not find out.
func (f *facts) close() error {
	if f.as != nil {
		f.as.close()
	}
	return f.failure
}

// Empty implements view.Facts.
func (f *facts) Empty(dir string) bool {
	d, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer d.Close()
	names, _ := d.Readdirnames(2)
	return len(names) == 0 || len(names) == 1 && names[0] == ".git"
}

// Repository implements view.Facts.
func (f *facts) Repository(dir string, writable []string) view.Repository {
	r, ok := f.repos[dir]
	if !ok {
		r.Layout, r.Err = workspace.GitDirs(dir, writable...)
		if r.Err == nil && r.Layout.CommonDir != "" {
			r.Obeyed, r.Unasked = f.r.obeyed(f.ctx, dir, &r.Layout)
		}
		f.repos[dir] = r
	}
	return r
}

// input is what a definition's table is made for.
func (r *resolver) input(d Definition) *view.Input {
	in := &view.Input{
		Definition: d, Sensitive: r.sensitive, Unisolated: r.unconfined(d),
		User:      view.User{UID: r.uid(), Home: r.home(), CallerHome: r.caller.home},
		Session:   view.Session{Dir: r.session.Dir, Home: r.sessionHome},
		Protected: r.protected, Programs: r.programs, Relied: r.relied, Own: r.own, Engines: r.engines, Outer: r.outer,
		Control: r.controlSockets(),
	}
	if d.Filesystem == "host" {
		in.Homes = r.homes()
	}
	for _, root := range r.ws.Roots() {
		in.Roots = append(in.Roots, view.Root{Path: root.Path, Declared: root.Declared, Field: root.Field, Writable: root.Writable})
	}
	if r.owner != nil {
		in.User.Other = r.owner.name
		if in.User.Other == "" {
			in.User.Other = "another user"
		}
	}
	if r.toolchains != nil {
		for _, dir := range r.toolchains.dirs {
			if _, err := os.Lstat(dir.path); err != nil {
				continue // as most
			}
			value, _ := r.caller.lookupEnv(dir.variable)
			in.Toolchain = append(in.Toolchain, view.ToolDir{Path: dir.path, Variable: dir.variable, Value: value})
		}
	}
	if slices.Contains(d.Credentials, CredentialSSHAgent) {
		in.Agent.Socket, in.Agent.Err = r.agentSocket()
	}
	for _, base := range r.sessionBases {
		if resolved, err := filepath.EvalSymlinks(base); err == nil {
			base = resolved
		}
		in.Session.Bases = append(in.Session.Bases, base)
	}
	const remembers = "XDG_STATE_HOME (what sbxhost remembers)"
	if dir := r.caller.stateDir(); dir != "" {
		in.State = append(in.State, view.Kept{Path: dir, Why: remembers, Dir: true})
	}
	if r.owner != nil && r.owner.home != "" {
		in.State = append(in.State, view.Kept{Path: filepath.Join(r.owner.home, ".local/state/sbxhost"), Why: remembers, Dir: true})
	}
	for _, record := range r.recorded {
		if record.file {
			in.State = append(in.State, view.Kept{Path: record.path, Why: record.attribute + " (" + record.what + ")"})
		}
	}
	return in
}

// homes are those of the caller and of whom commands run as, by HOME and by the
// account, and root's.
func (r *resolver) homes() []string {
	homes := []string{"/root"}
	for _, home := range [...]string{r.home(), r.caller.home, accountHome(r.caller.uid)} {
		if filepath.IsAbs(home) && home != "/" && !slices.Contains(homes, filepath.Clean(home)) {
			homes = append(homes, filepath.Clean(home))
		}
	}
	return homes
}

// accountHome is the home directory of a user's account; "" where there is none.
func accountHome(uid int) string {
	account, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return ""
	}
	return account.HomeDir
}

// prepare makes what a command could make otherwise, or what has to be there to be
// hidden: the host's records, its state, directories of sessions.
func (r *resolver) prepare(v *view.View, in *view.Input, f *facts) error {
	defer f.forget()
	for _, record := range r.recorded {
		p, err := r.makeRecord(v, record)
		if err != nil {
			return err
		}
		if p != "" {
			in.Records = append(in.Records, view.Relied{Path: p, What: record.what})
		}
	}
	for _, kept := range in.State {
		if way := follow("/", kept.Path); kept.Dir && way.Err == nil && way.Kind == view.Absent && v.Visible(way.End) && !v.Creatable(way.End) {
			_ = approvals.MakeDir(way.End) // else nobody makes it
		}
	}
	for i, base := range in.Session.Bases {
		if v.Visible(base) && !strings.HasPrefix(base, workspace.SystemSessionsDir()) {
			_ = workspace.MakeBase(base) // else nobody makes it
		}
		if resolved, err := filepath.EvalSymlinks(base); err == nil {
			in.Session.Bases[i] = resolved
		} else {
			in.Session.Bases[i] = "" // there is nothing to hide
		}
	}
	in.Session.Bases = slices.DeleteFunc(in.Session.Bases, func(base string) bool { return base == "" })
	return nil
}

// attributeError is an ErrInvalidSpec that names an attribute.
func attributeError(attribute, message, hint string) error {
	return view.Invalid(attribute, message, hint)
}

// uid is whom commands run as.
func (r *resolver) uid() uint32 {
	if r.owner != nil {
		return r.owner.user.UID
	}
	return uint32(r.caller.uid)
}

// obeyed is what git goes by besides the layout of a repository, by its own word.
func (r *resolver) obeyed(ctx context.Context, top string, layout *workspace.GitLayout) (list []view.Obeyed, err error) {
	o := r.ws.Obeyed(ctx, top, *layout, r.owner.gitUser())
	for _, paths := range [...]struct {
		what string
		list []string
		file bool
	}{{"hooks", o.Hooks, false}, {"configuration", o.Config, true}, {"program", o.Other, true}, {"hook", o.Linked, true}} {
		for _, p := range paths.list {
			list = append(list, view.Obeyed{Path: p, What: paths.what, File: paths.file})
		}
	}
	if p := filepath.Join(layout.CommonDir, "objects/info/alternates"); follow("/", p).Kind == view.File {
		list = append(list, view.Obeyed{Path: p, What: "objects/info/alternates", File: true})
	}
	return list, o.Failed
}
