// Package scan finds what matters in trees of files, again and again: paths that match
// patterns, other hard links to them, socket files, repositories.
//
// A Scanner remembers each directory by its device, inode and times, and reads it again
// when any of them has changed. It looks at every directory in every scan, and at no
// file: what it reports depends on names, types and inode numbers, which do not change
// without the directory's times. If a directory changed so lately that the clock of its
// file system may not tell the next change from the last, it is read each time: for a
// tenth of a second on Linux's local file systems, for two seconds elsewhere. So the
// answer is that of the moment of the call. It costs one lstat a directory, about a
// microsecond, plus what has changed. A first scan costs about six times that, unless a
// [Memory] has what another process saw.
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
