//go:build unix

package sessiondir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Why a directory of a session is measured and not capped: it has to outlive
// every process of the session, so it cannot be memory; and what the kernel has
// for directories on a disk - project quotas, a file system in a file - is
// root's to set up. So somebody adds up what is there between commands. That
// costs a walk, which is saved while it could tell nothing new: what has grown on
// the whole file system since the last one is the most that the directory can
// have grown, but for what others have freed meanwhile; and it is not
// believed for long.

// measuredFor is how long a measurement is believed, if the file system has not
// grown.
const measuredFor = 10 * time.Minute

// measuredAlways is how many names are looked at before every command: that
// takes a fraction of a millisecond, and is exact.
const measuredAlways = 256

// measured is what a directory held, and the space that was taken on its whole
// file system, at a time.
type measured struct {
	size, names int64
	used        int64
	at          time.Time
}

// tells reports whether m, with used taken on the file system now, says that the
// directory holds no more than limit. A sixteenth more passes: else each command
// would wait for a walk where a session is nearly full.
func (m measured) tells(limit, used int64, now time.Time) bool {
	age := now.Sub(m.at)
	return m.names > measuredAlways && m.size <= limit && age >= 0 && age < measuredFor && used-m.used <= max(limit-m.size, limit/16)
}

// Room is [ErrFull] if the directory that Sub(name) has given holds more
// than limit bytes. That is an approximation: see the package's promises.
func (d *Dir) Room(ctx context.Context, name string, limit uint64) error {
	dir, err := d.Sub(ctx, name)
	if err != nil {
		return err
	}
	if err := d.enter(ctx); err != nil {
		return err
	}
	known, frame := d.rooms[name], d.dir
	d.leave()
	most := int64(min(limit, 1<<62))
	now := time.Now()
	taken, ok := used(dir)
	if ok && known.at.IsZero() && d.name != "" {
		known, _ = readMeasured(frame, name)
	}
	if ok && known.tells(most, taken, now) {
		d.remember(name, known)
		return nil
	}
	size, names, err := measureTree(ctx, dir, most)
	if err != nil {
		return fmt.Errorf("session directory: %w", err)
	}
	if size > most {
		return ErrFull // and measured no further: nothing to remember
	}
	if ok {
		m := measured{size, names, taken, now}
		d.remember(name, m)
		if d.name != "" && names > measuredAlways {
			_ = m.write(frame, name) // else the next process measures, too
		}
	}
	return nil
}

func (d *Dir) remember(name string, m measured) {
	d.mutex <- struct{}{}
	defer d.leave()
	if d.rooms == nil {
		d.rooms = map[string]measured{}
	}
	d.rooms[name] = m
}

// measuredFile is where the processes of a named session tell one another what
// they have measured. No command sees it.
func measuredFile(dir, name string) string { return filepath.Join(dir, "."+name+".size") }

// write writes what readMeasured reads. Of two that write at once, or half of it,
// nothing can be made, and the next process measures by itself.
func (m measured) write(dir, name string) error {
	return os.WriteFile(measuredFile(dir, name), []byte(m.line()), 0o600)
}

func (m measured) line() string { return fmt.Sprintln(m.size, m.names, m.used, m.at.UnixNano()) }

func readMeasured(dir, name string) (m measured, err error) {
	text, err := readSmall(measuredFile(dir, name))
	if err == nil {
		m, err = parseMeasured(text)
	}
	return m, err
}

var errMeasured = errors.New("not what was measured of a session")

func parseMeasured(text string) (measured, error) {
	var m measured
	var at int64
	_, err := fmt.Sscanln(text, &m.size, &m.names, &m.used, &at)
	m.at = time.Unix(0, at)
	if err != nil || min(m.size, m.names, m.used, at) < 0 || text != m.line() {
		return measured{}, errMeasured
	}
	return m, nil
}
