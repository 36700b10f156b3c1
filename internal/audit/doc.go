// Package audit writes a log of what was decided about commands and how they
// ended: one line of JSON for each.
//
// # Promise
//
//   - Lines are whole and in order. Each is one write at the end of the file,
//     under a lock that all processes take, and is on the disk when Append returns. Where a
//     writer was killed in the middle of a line, the next one begins a new line. The time of
//     a line is that of its being written, under the lock.
//   - A line is printable ASCII, whatever the command's arguments hold, and
//     bounded in length: no argument can forge a line, or act on a terminal
//     that shows the log.
//   - A line that was not written whole is an error, and nothing of it stays.
//   - The file grows. Whoever renames it, such as logrotate, tells no writer: the next line
//     begins a new file.
//   - A symlink, a fifo, and a stranger's file in a directory that is everybody's
//     are not written to.
//
// # Limits
//
// The log is the user's own file: who runs programs as the user outside of a
// sandbox can change it. For one that cannot be changed, let it lie where a
// collector picks it up, or make it append-only (chattr +a), in which case
// the part of a line that a full disk left stays.
//
// Whoever can read the file can lock it, and so hold up all that are to write: a
// sandbox that shows it is such a one.
//
// Between a kill in the middle of a write and the next writer, a reader may
// see a torn last line. On a network file system without working locks,
// writers of several machines can tear one another's.
package audit
