// Package stubs holds the places of paths that do not exist, so that something can be
// mounted there, and leaves nothing behind.
//
// A path that commands must not create is held: the package creates a stub there, an
// empty directory or a harmless file, and removes it after the last command that needs
// it. All processes that work there share the stub, whoever runs them. Nothing is written
// down elsewhere:
//
//   - A stub has a mark from the moment it is there: a directory the sticky bit, a file a
//     time of last change in 1976.
//   - Each process that needs a stub holds a shared lock on it (flock). Who gives it up
//     removes it only if it can lock it exclusively: so the last one does, whoever made it.
//   - What a killed process leaves behind has the mark and no lock. The next process that
//     needs the same path takes it over, and removes it in the end.
//
// A stub is removed only if it is the inode that was locked, still has its mark, and is
// still empty. What was put there meanwhile stays, and loses the mark; what existed before
// stays too. No symlink is followed on the way to a stub, and owner or mode is changed by
// descriptor alone.
//
// Stubs that are not needed now wait in a cache: see cache.go for why, and for when it
// is not used. It holds a thousand inodes, and may be removed at any time.
//
// # Limits
//
// A path where files cannot be locked (some network file systems), where nothing can be created,
// or that somebody else has locked exclusively for long, is reported as not held. A stub stays
// behind where a directory has no sticky bit (FAT): nobody can know that it is one.
// An empty directory of somebody's that has the mode of a stub, 1755, counts as one.
// In a directory with the sticky bit another user's stub is left for that user. Where a file
// system has no files without a name, a process that is killed while it makes a file can
// leave one without the mark.
package stubs
