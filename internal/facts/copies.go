//go:build unix

package facts

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/sessiondir"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// useCopies shows the configurations that a command must see, from copies named by their checksums.
// If no copy is possible, the command sees the originals, but not the host's file of certificates, without
// the certificate that commands must trust.
func (m *Machine) useCopies(out *Resolution) error {
	for i := range out.Spec.Table {
		e, file := &out.Spec.Table[i], ""
		if content, ok := out.FixedContents[e.Source]; ok && e.Access == shared.ReadOnly {
			file = m.copyOf(out, content)
		}
		if file != "" {
			out.Copies[file], e.Source = e.Source, file
		}
		switch {
		case e.Why != view.OriginInject:
		case file == "":
			return &shared.Error{Kind: shared.ErrUnavailable, Attribute: view.OriginInject, Message: "the certificate that commands must trust cannot be stored outside of what commands can write",
				Hint: "set XDG_CACHE_HOME to a directory outside of what commands can write"}
		default:
			m.certificates.copies.Store(file, nil)
		}
	}
	return nil
}

// copies returns the directory of the copies, or "". The commands' user must be able to search it,
// and another user may neither list nor write it: nobody can name a copy without its content.
func (m *Machine) copies() string {
	dir, mode := filepath.Join(sessiondir.SystemBase(), copiesName), fs.FileMode(0o711)
	if m.Owner == nil {
		dir, mode = m.Caller.copies(), 0o700
	}
	if dir == "" || hostpath.MakePrivate(dir, mode) != nil { // also if another user's symlink leads there
		return ""
	}
	return Follow(dir).End
}

const copiesName = "git"

// copies is the directory of copies for this user's own commands, or "". Commands may be able to write
// around it: a symlink in its place would lead the host.
func (c *Caller) copies() string {
	sessions, err := sessiondir.UserBase(c.LookupEnv)
	if err != nil {
		return ""
	}
	return filepath.Join(filepath.Dir(sessions), copiesName)
}

// copyOf keeps a copy of a content and returns its path, or "". A copy that commands can write would let
// one of them choose what another's git runs.
func (m *Machine) copyOf(out *Resolution, content []byte) string {
	dir := m.copies()
	file := filepath.Join(dir, fmt.Sprintf("%x", sha256.Sum256(content)))
	if dir == "" || out.WritableAt(file) {
		return ""
	}
	if text, err := os.ReadFile(file); err == nil && bytes.Equal(text, content) {
		if info, err := os.Stat(file); err != nil || time.Since(info.ModTime()).Abs() > time.Hour {
			_ = os.Chtimes(file, time.Time{}, time.Now()) // else another command could sweep it before this one mounts it
		}
		return file
	}
	temp, err := os.CreateTemp(dir, filepath.Base(file))
	if err != nil {
		return ""
	}
	_, err = temp.Write(content)
	if err = errors.Join(err, temp.Chmod(0o444), temp.Close()); err == nil {
		err = os.Rename(temp.Name(), file)
	}
	if err != nil {
		os.Remove(temp.Name())
		return ""
	}
	sweepCopies(dir)
	return file
}

// sweepCopies removes copies, also unfinished ones, that no command has used for a day: a killed host leaves
// that of its certificates. One that is mounted stays so. A name is a hash, or begins with one: a cache that is
// led elsewhere, or was a directory before, has files of the user.
func sweepCopies(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && len(e.Name()) >= 2*sha256.Size && time.Since(info.ModTime()) > 24*time.Hour {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// originSettings is the origin of git's settings for commands.
const originSettings = "git: your settings"

// showSettings shows the configuration that git inside reads as the system's, so that a
// repository's own has precedence: the user's settings, and excludes for hidden files, which git
// must neither add nor report.
func (m *Machine) showSettings(out *Resolution) {
	config, excludes := out.Settings.Config, m.excludes(out)+out.hiddenFromGit()
	if config == "" && excludes == "" {
		return
	}
	if excludes != "" {
		file := m.showCopy(out, excludes)
		if file == "" {
			return
		}
		config += "[core]\n\texcludesFile = " + strconv.Quote(file) + "\n"
	}
	out.gitConfig = m.showCopy(out, "[include]\n\tpath = /etc/gitconfig\n"+config)
}

// excludes is the content of the user's core.excludesFile. If commands can write it, or lead it
// elsewhere, it is empty: it could be any file of the user.
func (m *Machine) excludes(out *Resolution) string {
	p := out.Settings.Excludes
	way := Follow(p)
	if way.Kind != view.File || paths.InsideAny([]string{"/proc", "/sys", "/dev"}, way.End) {
		return ""
	}
	for _, at := range append(way.Links, filepath.Clean(p), way.End) {
		if e, _ := shared.Cover(out.Spec.Table, at); m.Written(at) != "" || out.WritableAt(at) || e != nil && e.Access == shared.Hidden && strings.HasPrefix(e.Why, "deny_paths") {
			return ""
		}
	}
	const most = 64 << 10
	text, err := hostpath.ReadNoSymlinks(way.End, most)
	if err != nil || m.Owner != nil && way.UID != m.Owner.User.UID {
		return ""
	}
	return string(bytes.TrimRight(text, "\n")) + "\n"
}

// headLog is git's log of commits in the workspace's root; "" if its user would sign none, or the
// definition configures git.
func (m *Machine) headLog(out *Resolution, in *view.Input, look *lookup) string {
	l, err := look.layout(m.Workspace.Root())
	if !out.Settings.Signs || err != nil || in.Env["GIT_CONFIG_COUNT"] != "" {
		return ""
	}
	return path.Join(l.GitDir, "logs/HEAD")
}

// showCopy shows a copy of a text and returns its path, or "".
func (m *Machine) showCopy(out *Resolution, text string) string {
	file := m.copyOf(out, []byte(text))
	at, found := slices.BinarySearchFunc(out.Spec.Table, file, func(e shared.Entry, p string) int { return paths.Compare(e.Path, p) })
	if !found && file != "" {
		out.Spec.Table = slices.Insert(out.Spec.Table, at, shared.Entry{Source: file, Path: file, Access: shared.ReadOnly, Why: originSettings})
	}
	return file
}

// hiddenFromGit returns patterns of gitignore for the hidden paths in the work trees of the user's
// repositories. It compares paths of the host: inside, workdir or a bind can put a work tree elsewhere.
func (r *Resolution) hiddenFromGit() string {
	var list strings.Builder
	hostPath := view.HostPaths(r.Spec.Table)
	for _, e := range r.Spec.Table {
		if e.Access != shared.Hidden {
			continue
		}
		hidden := hostPath(&e)
		for dir := range paths.Up(path.Dir(hidden)) {
			if name := strings.TrimPrefix(hidden, dir); slices.Contains(r.GuardedRepositories, dir) && !strings.HasPrefix(name, "/.git/") && !strings.Contains(name, "\n") {
				list.WriteString(gitignoreQuoter.Replace(name) + "\n")
				break
			}
		}
	}
	return list.String()
}

// gitignoreQuoter quotes a name for gitignore.
var gitignoreQuoter = strings.NewReplacer("\\", "\\\\", "*", "\\*", "?", "\\?", "[", "\\[", " ", "\\ ")
