package holder

import (
	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
)

// tryOverlay finds out, once a session, whether an overlay on the file system of
// the session's directory can do what commands will ask of it. A mount that
// succeeds does not tell: without extended attributes, or in a file system that
// is an overlay itself, it is removing and replacing that fails.
func (s *space) tryOverlay() *MountError {
	base, failed := makeDirs(s.dir, "trial")
	if failed != nil {
		return failed
	}
	defer unix.Close(base)
	const proof = "proof"
	var st unix.Stat_t
	if unix.Fstatat(base, proof, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return nil // by an earlier holder
	}
	var layers [3]int
	for i, name := range [...]string{"lower", "upper", "work"} {
		if layers[i], failed = makeDirs(base, name); failed != nil {
			frame.CloseAll(layers[:i])
			return failed
		}
	}
	defer frame.CloseAll(layers[:])
	lower := layers[0]
	if err := unix.Mkdirat(lower, "d", 0o700); err != nil && err != unix.EEXIST {
		return mountError("trying an overlay", err)
	}
	for _, name := range [...]string{"f", "d/f"} {
		if err := touch(lower, name); err != nil {
			return mountError("trying an overlay", err)
		}
	}
	var merged int
	err := patiently(func() (err error) {
		merged, err = createOverlay(lower, layers[1], layers[2])
		return err
	})
	if err != nil {
		return mountError("mounting an overlay", err)
	}
	defer unix.Close(merged)
	if err := useOverlay(merged); err != nil {
		return mountError("using an overlay on the session's file system", err)
	}
	if err := touch(base, proof); err != nil {
		return mountError("trying an overlay", err)
	}
	return nil
}

// useOverlay removes a file, and replaces a directory by an empty one.
func useOverlay(merged int) error {
	for _, removal := range [...]struct {
		name  string
		flags int
	}{{"f", 0}, {"d/f", 0}, {"d", unix.AT_REMOVEDIR}} {
		// What is gone was removed by a trial that was interrupted.
		if err := unix.Unlinkat(merged, removal.name, removal.flags); err != nil && err != unix.ENOENT {
			return err
		}
	}
	if err := unix.Mkdirat(merged, "d", 0o700); err != nil {
		return err
	}
	var st unix.Stat_t
	for _, name := range [...]string{"f", "d/f"} {
		if err := unix.Fstatat(merged, name, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil {
			return unix.EEXIST
		} else if err != unix.ENOENT {
			return err
		}
	}
	return touch(merged, "f")
}

func touch(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}
