package nsengine

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/shared"
)

// SessionDir makes a directory of a session, one for each user, and checks who could have written
// to it; see [holder.SessionDir].
func SessionDir(spec *shared.Spec, name string) (string, error) {
	uid, gid := os.Geteuid(), os.Getegid()
	if u := spec.User; u != nil && uid == 0 {
		uid, gid = int(u.UID), int(u.GID)
	}
	name += "-" + strconv.Itoa(uid)
	dir, err := holder.SessionDir(spec.Session.Dir, uid, gid, name)
	if err != nil {
		return "", err
	}
	unix.Close(dir)
	return filepath.Join(spec.Session.Dir, name), nil
}
