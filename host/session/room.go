//go:build unix

package session

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/sessiondir"
	"github.com/sbxhost/sbxhost/shared"
)

// diskRoom is the cap of a session's own directories where a definition sets no
// TempSize: the most that an engine gives to a file system in memory.
const diskRoom = 4 << 30

// A sizedDir is a directory of the session that a command can fill: it lasts,
// so that no engine can cap it as it does memory.
type sizedDir struct {
	sub   string // of the session's directory
	place string // inside
}

// filled are those that spec shows.
func filled(spec *shared.Spec) []sizedDir {
	var home, temp []sizedDir
	if spec.Unconfined {
		return nil // what it writes to, it writes to at any rate
	}
	for _, m := range spec.Table {
		switch {
		case m.Why == view.OriginHome && m.Access == shared.ReadWrite:
			home = append(home, sizedDir{filepath.Base(m.Source), m.Path})
		case m.Why == view.OriginTemp && m.Path == "/tmp":
			temp = append(temp, sizedDir{filepath.Base(m.Source), m.Path})
		}
	}
	return append(home, temp...)
}

// checkSize refuses a size that is required of a directory which only
// can be measured.
func checkSize(spec *shared.Spec) error {
	dirs := filled(spec)
	if len(dirs) == 0 || spec.Limits.TempSize == 0 || spec.Limits.BestEffort {
		return nil
	}
	return &shared.Error{Kind: shared.ErrUnsupported, Attribute: tempSizeAttribute,
		Message: fmt.Sprintf("nothing can hold it for what the session keeps on a disk, %s: that is measured before each command", names(dirs)),
		Hint:    `accept that with enforce = "best_effort", or leave temp_size out: what the session keeps may then take 4 GiB`}
}

const tempSizeAttribute = "limits.temp_size"

// alone reports whether the session has one command.
func (s *Session) alone() bool { return s.once && s.Name() == "" }

// CheckRoom refuses a command where those before it have left more in the
// session than a command of spec may find.
func (s *Session) CheckRoom(ctx context.Context, spec *shared.Spec) error {
	if s.alone() {
		return nil // nobody was there before
	}
	limit := roomLimit(spec)
	for _, dir := range filled(spec) {
		err := s.dir.Room(ctx, dir.sub, limit)
		if !errors.Is(err, sessiondir.ErrFull) {
			if err != nil {
				return err
			}
			continue
		}
		what, hint := "of the session", "begin a new session, or raise limits.temp_size"
		if name := s.Name(); name != "" {
			what = fmt.Sprintf("of session %q", name)
			hint = "remove the session with all that it keeps, or raise limits.temp_size"
		}
		return &shared.Error{Kind: sessiondir.ErrFull, Attribute: tempSizeAttribute,
			Message: fmt.Sprintf("%s %s holds more than %s, which is all that it may", dir.place, what, bytesText(limit)), Hint: hint}
	}
	return nil
}

// RoomEvents say how the size of the session's directories is kept.
func (s *Session) RoomEvents(spec *shared.Spec) []shared.Event {
	dirs := filled(spec)
	if len(dirs) == 0 || spec.Limits.TempSize == 0 {
		return nil
	}
	const limit = "temp_size"
	e := shared.Event{Kind: shared.EventLimit, Time: time.Now()}
	if s.alone() {
		e.Message = fmt.Sprintf("limits.%s is not held for %s, which lies on a disk", limit, names(dirs))
		e.Details = map[string]string{"limit": limit, "mechanism": "", "hold": "not held"}
	} else {
		mechanism := "measuring " + names(dirs) + " before each command"
		e.Message = fmt.Sprintf("limits.%s is approximated by %s", limit, mechanism)
		e.Details = map[string]string{"limit": limit, "mechanism": mechanism, "hold": "approximated"}
	}
	return []shared.Event{e}
}

// RoomNotes say the same to who asks, and what is so without a limit.
func (s *Session) RoomNotes(spec *shared.Spec) []string {
	dirs := filled(spec)
	if len(dirs) == 0 {
		return nil
	}
	if s.alone() {
		return []string{fmt.Sprintf("session: %s lies on a disk, where nothing bounds what this command writes", names(dirs))}
	}
	return []string{fmt.Sprintf("session: before each command %s may hold %s on the disk; one that writes more is not stopped, and the next is refused", names(dirs), bytesText(roomLimit(spec)))}
}

func roomLimit(spec *shared.Spec) uint64 {
	if spec.Limits.TempSize > 0 {
		return spec.Limits.TempSize
	}
	return diskRoom
}

func names(dirs []sizedDir) string {
	list := make([]string, len(dirs))
	for i, d := range dirs {
		list[i] = d.place
	}
	if len(list) > 1 {
		list[0] = "each of " + list[0]
	}
	return strings.Join(list, " and ")
}

// bytesText gives a size as a definition would.
func bytesText(n uint64) string {
	for i, unit := range [...]string{"TiB", "GiB", "MiB", "KiB"} {
		if one := uint64(1) << (10 * (4 - i)); n >= one && n%one == 0 {
			return fmt.Sprintf("%d %s", n/one, unit)
		}
	}
	return fmt.Sprintf("%d B", n)
}
