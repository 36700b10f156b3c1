// Package scan finds what matters in trees of files, again and again: paths
// that match patterns, other hard links to them, socket files, repositories.
//
// A Scanner remembers each directory by its device, inode and times, and reads
// it again when any of them has changed. Directories are always looked at, and
// files never: what is reported depends on names, types and inode numbers, which
// do not change without the directory's times. A directory that changed so
// lately that the clock of its file system may not tell the next change from
// this one is read each time: for a tenth of a second on Linux' local file
// systems, and two seconds elsewhere. So the answer is that of the moment of the call,
// at the cost of one lstat a directory - about a microsecond each -, plus what
// has changed; a first look costs about six times that, unless a [Memory] has
// what another process saw.
//
// What the limits are: names that change while a scan runs may be seen or not;
// a tree with more than maxEntries names is an error and never cut short; a
// directory that cannot be searched is reported as such; and one that lies more than
// MaxDepth directories deep, or has too long a path, is reported and not searched. Symbolic links are
// reported where they match, and followed into other directories of the scanned
// trees where a pattern goes on through them. Hard links are found by the inode
// numbers that directories give, which some layered file systems make up: see
// Result.Blind.
package scan
