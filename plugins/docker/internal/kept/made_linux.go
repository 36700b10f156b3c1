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

// ingredients are what a container is made from. A command that needs others gets another
// container: a reused one has the mounts of its start, and loses one that hides or protects a file
// when the host replaces that file.
type ingredients struct {
	Of      string   // a checksum
	shown   []string // of the host: binds and hidden paths
	Sources []string // the identity of each
	// mounted are the container's mount points. Identities are not enough: a removed file takes its
	// mount along, and can come back through another of its names, without the mount.
	Mounted []string
}

// identity distinguishes a file from another that has replaced it, even with the same inode number.
// Writes do not matter: a bind shows them. A file without an identity is always another one: a
// container loses the protection of a missing path when the host removes the stub.
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

// none is the identity of a missing file.
const none = "none"

// MadeOf returns the ingredients of a container that would begin now. They include the init's
// version and what the host has replaced. The plan has no connection of its own.
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
	config.Labels = nil // they name the maker
	raw, err := json.Marshal([]any{definition.Version, init.Size(), init.ModTime(), config, p.Host})
	if err != nil {
		return m, &shared.Error{Kind: shared.ErrUnavailable, Message: err.Error()}
	}
	sum := sha256.Sum256(raw)
	m.Of = hex.EncodeToString(sum[:16])
	return m, nil
}

// Same reports whether a container with the ingredients o will do.
func (m *ingredients) Same(o *ingredients) bool {
	return m.Of == o.Of && slices.Equal(m.Sources, o.Sources)
}

// Differs names the first path whose identity has changed, if all else is the same; nil if none
// has.
func (m *ingredients) Differs(from []string) *string {
	for i, s := range m.Sources {
		if i >= len(from) || s != from[i] {
			return &m.shown[i]
		}
	}
	return nil
}
