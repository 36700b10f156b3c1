package shared

import (
	"encoding/hex"
	"hash/fnv"
	"path"
	"strconv"
)

// KeptOverlay says where an engine with [FeatureOverlayKept] keeps what commands write to
// the overlay of a source, for the user whom they run as: the upper directory of the kernel's
// overlay file system, in the form of the mount option userxattr. Who has an exclusive flock(2) on the
// file lock, which need not exist, knows that no process of an engine is about to mount
// the overlay; the kernel refuses a second mount of it.
func KeptOverlay(session *Session, uid uint32, source string) (upper, lock string) {
	sum := fnv.New128a()
	sum.Write([]byte(source))
	user := path.Join(session.Dir, "holder", "u"+strconv.FormatUint(uint64(uid), 10))
	return path.Join(user, "overlay", hex.EncodeToString(sum.Sum(nil)), "upper"), path.Join(user, "lock")
}
