package kept

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/moby/moby/api/types/mount"
	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/plugins/docker/internal/definition"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/plan"
	"github.com/sbxhost/sbxhost/shared"
)

// ingredients says what a container is made from. A command that needs another gets
// another: the mounts of one that is reused are those of the moment when it
// began, and what hides a file, or keeps one from being written, is gone from it
// when the host has put another in that one's place.
type ingredients struct {
	Of      string   // checksum
	shown   []string // what is bound, and what is hidden, of the host; and
	Sources []string // the identity of each
	// mounted are the container's paths on each of which something is mounted. The
	// identities alone do not tell: a file that was removed takes the mount with it,
	// and comes back without by another of its names.
	Mounted []string
}

// identity tells a file from another that has taken its place, be it with the
// same inode number. What was written to it does not count: a bind shows that.
// One that cannot be told is another each time: what protects the place of a file
// that does not exist is gone from a container when the host has removed it.
func identity(path string) string {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return none
	}
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return rand.Text()
	}
	return fmt.Sprintf("%d:%d:%d:%d.%d", st.Dev_major, st.Dev_minor, st.Ino, st.Btime.Sec, st.Btime.Nsec)
}

// none is the identity of what does not exist.
const none = "none"

// MadeOf gives it for a container that would begin now. An init of another version counts, and what
// was replaced on the host since. The plan is one without a line of its own.
func MadeOf(p *plan.Plan, initFile string) (ingredients, error) {
	var m ingredients
	for _, bind := range p.Host.Mounts {
		m.Mounted = append(m.Mounted, bind.Target)
		if bind.Type == mount.TypeBind {
			m.shown, m.Sources = append(m.shown, bind.Source), append(m.Sources, identity(bind.Source))
		}
	}
	m.Mounted = slices.AppendSeq(m.Mounted, maps.Keys(p.Host.Tmpfs))
	for i, source := range p.Hidden {
		id := identity(source)
		m.shown, m.Sources = append(m.shown, source), append(m.Sources, id)
		if id != none {
			m.Mounted = append(m.Mounted, p.Masked[i])
		}
	}
	init, err := os.Stat(initFile)
	if err != nil {
		return m, &shared.Error{Kind: shared.ErrUnavailable, Message: err.Error()}
	}
	config := p.Config
	config.Labels = nil // which say who makes it
	raw, err := json.Marshal([]any{definition.Version, init.Size(), init.ModTime(), config, p.Host})
	if err != nil {
		return m, &shared.Error{Kind: shared.ErrUnavailable, Message: err.Error()}
	}
	sum := sha256.Sum256(raw)
	m.Of = hex.EncodeToString(sum[:16])
	return m, nil
}

// Same reports whether a container that is made from o will do.
func (m *ingredients) Same(o *ingredients) bool {
	return m.Of == o.Of && slices.Equal(m.Sources, o.Sources)
}

// Differs names what is not what it was when the identities were these, all else
// being the same; nil is nothing.
func (m *ingredients) Differs(from []string) *string {
	for i, s := range m.Sources {
		if i >= len(from) || s != from[i] {
			return &m.shown[i]
		}
	}
	return nil
}
