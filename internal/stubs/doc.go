// Package stubs holds paths that do not exist, so that an engine can mount something there, and
// removes all traces later.
//
// To hold a path that commands must not create, the package creates a stub there: an empty
// directory or a harmless file. It removes the stub after the last command that needs it. All
// processes that work there share the stub, whoever runs them. The state is in the stub alone:
//
//   - A stub has a mark from the start: a directory has the sticky bit, a file has a modification
//     time in 1976.
//   - Each process that needs a stub holds a shared lock on it (flock). A process that gives it up
//     removes it only if it can lock it exclusively: so the last one removes it, whoever made it.
//   - A killed process leaves a stub with the mark and without a lock. The next process that needs
//     the same path takes it over, and removes it later.
//
// The package removes a stub only if it is the locked inode, still has its mark, and is still
// empty. What somebody put there meanwhile stays, and loses the mark; what existed before stays
// too. The package follows no symlink on the way to a stub, removes it where its directory is
// then, and changes owner or mode only by descriptor.
//
// # Limits
//
// A path is reported as not held if its file system has no locks (some network file systems), if
// nothing can be created there, or if somebody else locks it exclusively for long. A stub stays
// behind if a directory cannot have a sticky bit (FAT): nobody can recognize it. An empty directory
// of somebody else with the mode of a stub, 1755, counts as a stub. In a directory with the sticky
// bit, another user's stub stays for that user. On a file system without unnamed files, a process
// that is killed while it makes a file can leave one without the mark.
package stubs
