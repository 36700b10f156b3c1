// Package stubs holds the places of paths that do not exist, so that something can be
// mounted there, and leaves nothing behind.
//
// A path that commands must not create is held: the package creates a stub there, an
// empty directory or a harmless file, and removes it after the last command that needs
// it. All processes that work there share the stub, whoever runs them:
//
//   - Each process that needs a stub holds a shared lock on it (flock). Who gives one
//     up removes it only if it can lock it exclusively.
//   - A stub has a mark: a directory the sticky bit, a file a time of last change in
//     1976. So the last process removes a stub even if another user has made it, and
//     takes the mark from one that something was put into.
//   - A Registry writes what it is about to make into a ledger, a file in a private
//     directory of its user, which it keeps locked for as long as its process lives.
//     Whoever finds a ledger that nobody has locked, since its process was killed,
//     removes what that one has left. Where there can be no ledger, stubs are held all
//     the same, and the next process that needs the same paths finds what is left.
//
// A stub is removed only if it is the inode that was locked, and still empty. What was
// put there meanwhile stays, and so does a path that existed before. No symlink is
// followed on the way to a stub, and owner or mode is changed by descriptor alone.
//
// Stubs that are not needed now wait in a cache: see cache.go for why, and for when it
// is not used. It holds a thousand inodes, and may be removed at any time.
//
// # Limits
//
// Where files cannot be locked (some network file systems), only the ledgers of one
// user share stubs, and two users can lose each other's. In a directory with the sticky
// bit another user's stub is left for that user. A path that nothing can be created at,
// or that is locked by somebody else for long, is reported as not held.
package stubs
