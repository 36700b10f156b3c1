package shared

import (
	"encoding/hex"
	"hash/fnv"
	"path"
	"strconv"
)

// KeptOverlay returns the paths at which an engine with [FeatureOverlayKept] keeps what a user's
// commands write to the overlay of a source. upper is the upper directory of the kernel's overlay
// file system, with the mount option userxattr; it gets the permissions of the source when it is made,
// and keeps those that commands give it. The file lock may be missing. While a process holds
// an exclusive flock(2) on it, no engine mounts the overlay; the kernel refuses a second mount.
func KeptOverlay(session *Session, uid uint32, source string) (upper, lock string) {
	sum := fnv.New128a()
	sum.Write([]byte(source))
	user := path.Join(session.Dir, "holder", "u"+strconv.FormatUint(uint64(uid), 10))
	return path.Join(user, "overlay", hex.EncodeToString(sum.Sum(nil)), "upper"), path.Join(user, "lock")
}
