// Package audit writes a log of what was decided about commands and how they
// ended: one line of JSON for each.
//
// # Promise
//
//   - Lines are whole and in order. Each is one write at the end of the file,
//     under a lock that all processes take. What a writer that was killed, or a
//     full disk, left of a line is removed by the next one. The time of a line is
//     that of its being written, under the lock.
//   - A line is printable ASCII, whatever the command's arguments hold, and
//     bounded in length: no argument can forge a line, or act on a terminal
//     that shows the log.
//   - A line that was not written whole is an error, and nothing of it stays.
//   - The log is rotated by size: FILE becomes FILE.1, and so on. The newest
//     lines are never dropped for want of a place. In a directory that is not
//     ours to change, the file grows.
//   - A symlink, a fifo, and a stranger's file in a directory that is everybody's
//     are not written to.
//
// # Limits
//
// The log is the user's own file: who runs programs as the user outside of a
// sandbox can change it. For one that cannot be changed, let it lie where a
// collector picks it up, or make it append-only (chattr +a), in which case it
// is not rotated and a torn line is closed instead of removed.
//
// Whoever can read the file can lock it, and so hold up all that are to write: a
// sandbox that shows it is such a one.
//
// Between a kill in the middle of a write and the next writer, a reader may
// see a torn last line. On a network file system without working locks,
// writers of several machines can tear one another's.
package audit
