// Package scan finds what matters in trees of files, again and again: paths that match
// patterns, other hard links to them, socket files, repositories.
//
// A Scanner remembers each directory by its identity - device, inode, mount, times - and
// reads it again when any of that has changed. It looks at every directory in every scan,
// and at no file: what it reports depends on names, types and inode numbers, which do not
// change without the directory's times. So the answer is that of the moment of the call.
// It costs one statx a directory, a microsecond or two, plus what has changed; a directory
// that is read costs about ten times that.
//
// # Why a stale answer hides no change
//
// Commands write to these trees at will, and would profit from a directory that is believed
// to hold what it held before. They cannot set a change time: the kernel does, to its own
// clock, with each change, and each forged modification time is such a change. So a
// directory is believed only where its next change must have another change time:
//
//   - The time is older than the look that it was read at: by two seconds, the coarsest
//     clock of a file system in use. A directory that changes while it is read, or
//     right after, is read again the next time, and so is one with a time in the future.
//   - Nobody has set the clock since. Where the wall clock and the time since boot have
//     parted, all is forgotten.
//   - Nothing in the answer is about another place. What a symlink leads to is looked at
//     in each scan.
//
// Another directory in the same place has another device, inode, birth or mount.
//
// # Limits
//
// Names that change while a scan runs may be seen or not. A tree with more than
// maxEntries names is an error; it is never cut short. A directory that cannot be read is
// reported, and so is one that lies more than MaxDepth directories deep or has too long a
// path. Symlinks are reported where they match, and followed into other directories of
// the scanned trees where a pattern goes on through them. Hard links are found by the
// inode numbers that directories give, which some layered file systems make up: see
// Result.Blind.
package scan
