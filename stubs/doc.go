// Package stubs holds the place of paths that do not exist, so that something
// can be mounted there, and leaves nothing behind.
//
// A mount needs something to lie on. To keep a command from creating a path,
// the path is created first - empty - and taken away after the last command
// that needs it. That is shared by everything that runs for one user: a
// Registry writes what it holds into a ledger of its own in a private
// directory, before it creates anything, and keeps the ledger locked for as long
// as its process lives. Whoever gives up a stub removes it unless a ledger that
// is locked has it, too; whoever finds a ledger that nobody locks, since its
// process was killed, removes what that one has left or takes it over.
//
// A stub is removed only if it is the same inode that was created, and still
// empty. What was put there meanwhile belongs to whoever put it there, and
// stays; so does a path that existed before. No symbolic link is followed on the
// way to a stub.
//
// Its limits: another user's stubs are not known to be stubs and are taken for
// what lies there, so two users who work in one directory at the same moment
// can lose each other's; and a directory on which no mount can be made, or in
// which nothing can be created, is reported and not held.
package stubs
