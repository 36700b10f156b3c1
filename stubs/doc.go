// Package stubs holds the place of paths that do not exist, so that something
// can be mounted there, and leaves nothing behind.
//
// A mount needs something to lie on. To keep a command from creating a path,
// the path is created first - empty - and taken away after the last command
// that needs it. That is shared by all who work there, whoever they are, by two
// means.
//
// Each process locks the stubs that it needs, together with the others who do
// (flock, shared), and whoever gives one up removes it only if it can lock it
// for itself. That works between users. A stub is known as one by a mark: a
// directory by the sticky bit, a file by the time of its last change, which is a
// moment long ago. So the last one removes a stub even where another user has
// made it, and takes the mark from one that something was put into.
//
// And a Registry writes what it makes into a ledger of its own in a private
// directory of its user, before it makes anything, and keeps the ledger locked
// for as long as its process lives. Whoever finds a ledger that nobody locks,
// since its process was killed, removes what that one has left or takes it
// over, wherever that lies. Where there can be no ledger - the directory cannot
// be written - stubs are held all the same; what a killed process leaves is then
// found by the next one that needs the same paths.
//
// A stub is removed only if it is the same inode that was locked, and still
// empty. What was put there meanwhile belongs to whoever put it there, and
// stays; so does a path that existed before. No symbolic link is followed on the
// way to a stub, and no owner or mode is changed but by descriptor.
//
// What is removed goes to a shelf beside the ledgers, where that is on the same
// file system, and comes back from there when the same path is needed again: that
// costs less, and a mount that a container has of it outlives the way there and
// back. It comes back to no other directory: a command that has it open could
// write to what is protected there. The shelf holds a thousand inodes, and may be
// removed at any time.
//
// Its limits: where files cannot be locked (some network file systems) stubs are
// shared by the ledgers of one user alone, and two users can lose each other's;
// in a directory with the sticky bit another user's stub is left for that user
// to sweep; and where nothing can be created, or on which no mount can be made,
// is reported and not held.
package stubs
