package explain

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// pathJSON is what the sandbox has at one path, as -json gives it.
type pathJSON struct {
	Version int    `json:"version"` // 1
	Sandbox string `json:"sandbox"`
	Path    string `json:"path"`     // inside
	LeadsTo string `json:"leads_to"` // Path without symlinks, if there is a sandbox; the rest is about that
	// Replaceable says that a command can replace one of the symlinks.
	Replaceable bool   `json:"replaceable"`
	Host        string `json:"host"`   // on the host; empty where nothing of the host's is there
	Access      string `json:"access"` // "not shown", or as of an entry
	Why         string `json:"why"`
	// Denials are what keeps a command from reading and writing there.
	Denials []host.Denial `json:"denials"`
	lines   []string      // Denials, for people
}

// explainedPath says of one path what a command finds there, and which attribute changes that.
func explainedPath(a *cli.App, flags *setup.Flags, s *setup.Setup, cmd *host.Cmd, e *host.Explanation, about string) (*pathJSON, error) {
	out := &pathJSON{Version: 1, Sandbox: e.Sandbox, Path: about, LeadsTo: about, Denials: []host.Denial{}}
	if e.Spec.Unconfined {
		out.Host, out.Access, out.Why = out.Path, "unconfined", "the command runs without a sandbox"
		return out, nil
	}
	if err := out.follow(&e.Spec); err != nil {
		return nil, err
	}
	for _, call := range []shared.TracedCall{{Wants: "read", Error: "ENOENT"}, {Wants: "write", Error: "EROFS"}} {
		if slices.ContainsFunc(out.Denials, isRead) {
			break // nor can it be written
		}
		call.Target = out.LeadsTo
		denied, err := cmd.Denied(call)
		if err != nil {
			return nil, err
		}
		for i := range denied {
			flags.PlaceDenial(a, s, &denied[i])
			out.Denials, out.lines = append(out.Denials, denied[i]), append(out.lines, flags.DenialLine(&denied[i]))
		}
	}
	out.find(&e.Spec)
	return out, nil
}

// follow finds where the path leads inside. Beneath the table, engines make some symlinks themselves.
func (out *pathJSON) follow(spec *shared.Spec) (err error) {
	out.LeadsTo, _, err = paths.Follow("/", out.Path, func(next string, _ bool) (paths.Step, error) {
		entry, at := shared.Cover(spec.Table, next)
		made := paths.InsideAny([]string{"/dev", "/proc"}, next) || spec.Filesystem == shared.FilesystemMinimal && paths.InsideAny([]string{"/etc", "/var"}, next)
		if entry == nil && !made && view.Shows(spec, next) == next {
			at = next
		}
		target, err := os.Readlink(at) // fails if it is none
		out.Replaceable = out.Replaceable || err == nil && view.WritableInside(spec, next)
		return paths.Step{Target: target}, nil
	}, nil)
	if err != nil {
		err = fmt.Errorf("%s %w", cli.Quote(out.Path), err)
	}
	return err
}

func isRead(d host.Denial) bool { return d.Operation == "read" }

// scratch are directories in which a command finds nothing of the host.
var scratch = [...]string{"/tmp", "/var/tmp", "/run", "/dev/shm", "/dev/mqueue", "/dev/pts"}

// find says what a command of spec finds at the path.
func (out *pathJSON) find(spec *shared.Spec) {
	p := out.LeadsTo
	entry, at := shared.Cover(spec.Table, p)
	unread := slices.ContainsFunc(out.Denials, isRead)
	_, err := os.Lstat(p)
	switch {
	case entry != nil && entry.Why != view.OriginParent:
		out.Host, out.Access, out.Why = at, entry.Access.String(), entry.Why
	case p == spec.Home || slices.Contains(scratch[:], p): // the host's is not there, and nothing keeps a command from writing
		out.Access, out.Why, out.Denials, out.lines = shared.Private.String(), "the command's own", []host.Denial{}, nil
	case unread, paths.Inside("/dev", p) && p != "/dev" && !view.HasDevice(spec, p) && !paths.InsideAny(scratch[:], p):
		out.Access, out.Why = "not shown", "neither filesystem nor another attribute shows it"
	case paths.Inside("/proc", p):
		out.Access, out.Why = shared.ReadOnly.String(), "the sandbox's own processes; commands write only files of their own processes"
	case p == "/dev":
		out.Access, out.Why = shared.ReadOnly.String(), "the sandbox's own devices"
	case view.HasDevice(spec, p):
		out.Access, out.Why = shared.ReadWrite.String(), "a device of the sandbox"
	case view.WritableInside(spec, p):
		out.Access, out.Why = shared.Private.String(), "the command's own"
	case errors.Is(err, fs.ErrNotExist):
		out.Access, out.Why = "not shown", "nothing is there on this machine"
	case view.Shows(spec, p) == "":
		out.Access, out.Why = "not shown", "neither filesystem nor another attribute shows it"
	default:
		out.Host, out.Access, out.Why = p, shared.ReadOnly.String(), "filesystem "+`"`+spec.Filesystem.String()+`"`
	}
}

// text is an explanation for people.
func (out *pathJSON) text() string {
	rows := [][]string{{"sandbox", cli.Quote(out.Sandbox)}, {"path", cli.Quote(out.Path)}}
	if out.LeadsTo != path.Clean(out.Path) {
		rows = append(rows, []string{"leads to", cli.Quote(out.LeadsTo)})
	}
	if out.Replaceable {
		rows = append(rows, []string{"symlink", "a command can replace it"})
	}
	if out.Host != "" && out.Host != out.LeadsTo {
		rows = append(rows, []string{"on the host", cli.Quote(out.Host)})
	}
	rows = append(rows, []string{"access", cmp.Or(meanings[out.Access], out.Access)}, []string{"because", cli.Printable(out.Why)})
	var b strings.Builder
	b.WriteString(cli.Table("", rows))
	if len(out.lines) > 0 {
		b.WriteString("\n" + cli.List("", out.lines))
	}
	return b.String()
}

// meanings are accesses in words; the others say enough.
var meanings = map[string]string{
	shared.ReadWrite.String(): "writable",
	shared.Overlay.String():   "writable; the host's files do not change",
	shared.Private.String():   "writable; nothing of the host is there but what is shown below it, and it ends with the command or session",
	shared.Hidden.String():    "hidden",
}
