package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// diskRoom is the cap of a session's own directories where a definition sets no
// TempSize: the most that an engine gives to a file system in memory.
const diskRoom = 4 << 30

// A sessionDir is a directory of the session that a command can fill: it lasts,
// so that no engine can cap it as it does memory.
type sessionDir struct {
	sub   string // of the umbrella
	place string // inside
}

// sessionDirs are those that spec shows.
func sessionDirs(spec *shared.Spec) []sessionDir {
	var home, temp []sessionDir
	if spec.Unconfined {
		return nil // what it writes to, it writes to at any rate
	}
	for _, m := range spec.Table {
		switch {
		case m.Why == homeOrigin && m.Access == shared.ReadWrite:
			home = append(home, sessionDir{filepath.Base(m.Source), m.Path})
		case m.Why == tempOrigin && m.Path == "/tmp":
			temp = append(temp, sessionDir{filepath.Base(m.Source), m.Path})
		}
	}
	return append(home, temp...)
}

// admitSessionDirs refuses a size that is required of a directory which only
// can be measured.
func admitSessionDirs(spec *shared.Spec) error {
	dirs := sessionDirs(spec)
	if len(dirs) == 0 || spec.Limits.TempSize == 0 || spec.Limits.BestEffort {
		return nil
	}
	return &shared.Error{Kind: shared.ErrUnsupported, Attribute: tempSizeAttribute,
		Message: fmt.Sprintf("nothing can hold it for what the session keeps on a disk, %s: that is measured before each command", places(dirs)),
		Hint:    `accept that with enforce = "best_effort", or leave temp_size out: what the session keeps may then take 4 GiB`}
}

const tempSizeAttribute = "limits.temp_size"

// alone reports whether the session has one command.
func (s *session) alone() bool { return s.once && !s.named() }

// checkRoom refuses a command where those before it have left more in the
// session than a command of spec may find.
func (s *session) checkRoom(ctx context.Context, spec *shared.Spec) error {
	if s.alone() {
		return nil // nobody was there before
	}
	limit := roomLimit(spec)
	for _, dir := range sessionDirs(spec) {
		err := s.umbrella.Room(ctx, dir.sub, limit)
		if !errors.Is(err, ErrSessionFull) {
			if err != nil {
				return err
			}
			continue
		}
		what, hint := "of the session", "begin a new session, or raise limits.temp_size"
		if s.named() {
			name := s.umbrella.Name()
			what = fmt.Sprintf("of session %q", name)
			hint = fmt.Sprintf("remove the session with all that it keeps, sbxhost sessions rm %s, or raise limits.temp_size", name)
		}
		return &shared.Error{Kind: ErrSessionFull, Attribute: tempSizeAttribute,
			Message: fmt.Sprintf("%s %s holds more than %s, which is all that it may", dir.place, what, bytesText(limit)), Hint: hint}
	}
	return nil
}

// roomEvents say how the size of the session's directories is kept.
func (s *session) roomEvents(spec *shared.Spec) []shared.Event {
	dirs := sessionDirs(spec)
	if len(dirs) == 0 || spec.Limits.TempSize == 0 {
		return nil
	}
	const limit = "temp_size"
	e := shared.Event{Kind: shared.EventLimit, Time: time.Now()}
	if s.alone() {
		e.Message = fmt.Sprintf("limits.%s is not held for %s, which lies on a disk", limit, places(dirs))
		e.Details = map[string]string{"limit": limit, "mechanism": "", "hold": "not held"}
	} else {
		mechanism := "measuring " + places(dirs) + " before each command"
		e.Message = fmt.Sprintf("limits.%s is approximated by %s", limit, mechanism)
		e.Details = map[string]string{"limit": limit, "mechanism": mechanism, "hold": "approximated"}
	}
	return []shared.Event{e}
}

// roomNotes say the same to who asks, and what is so without a limit.
func (s *session) roomNotes(spec *shared.Spec) []string {
	dirs := sessionDirs(spec)
	if len(dirs) == 0 {
		return nil
	}
	if s.alone() {
		return []string{fmt.Sprintf("session: %s lies on a disk, where nothing bounds what this command writes", places(dirs))}
	}
	return []string{fmt.Sprintf("session: before each command %s may hold %s on the disk; one that writes more is not stopped, and the next is refused", places(dirs), bytesText(roomLimit(spec)))}
}

func roomLimit(spec *shared.Spec) uint64 {
	if spec.Limits.TempSize > 0 {
		return spec.Limits.TempSize
	}
	return diskRoom
}

func places(dirs []sessionDir) string {
	names := make([]string, len(dirs))
	for i, d := range dirs {
		names[i] = d.place
	}
	if len(names) > 1 {
		names[0] = "each of " + names[0]
	}
	return strings.Join(names, " and ")
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
