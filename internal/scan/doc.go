// Package scan searches file trees repeatedly for paths that match patterns, other hard links to
// them, socket files, and repositories.
//
// A Scanner remembers each directory by its identity - device, inode, times - and reads the
// directory again when any of these has changed. Each scan looks at every directory, and only at the
// files that match: the result depends on names, types and inode numbers, which do not change without
// the directory's times. So the result is true at the time of the call. It costs one lstat for each
// directory, one or two microseconds, plus the changes; to read a directory costs about ten times
// that.
//
// # Why a stale answer hides no change
//
// Commands write to these trees at will, and would profit if the Scanner believed an old state.
// They cannot set a change time: the kernel sets it by its own clock at each change, also when a
// command forges a modification time. So the Scanner believes a directory only if its next change
// must have another change time:
//
//   - The time is at least two seconds older than the look at the directory. Two seconds is the
//     coarsest clock of a file system in use. The next scan reads a directory again if it changed
//     during the read or just after it, or if its time is in the future.
//   - Nobody has set the clock since. If the lead of the wall clock over the time that the machine
//     ran has changed, the Scanner forgets everything.
//   - Nothing in the answer depends on another place. Each scan looks where symlinks lead.
//
// Another directory at the same path has another device, inode or change time.
//
// # Limits
//
// A scan may or may not see names that change while it runs. A tree with more than maxEntries names
// is an error; a scan never returns a part. It reports a directory that it cannot read, one more
// than MaxDepth directories deep, and one with too long a path. It reports symlinks that match, and
// those to another directory of the scanned trees behind which a pattern could match. It follows
// none. It finds hard links by the inode numbers that directories give. Some layered file systems
// invent these numbers: see LinksUnknown.
package scan
