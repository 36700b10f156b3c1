// Package audit writes a log of the decisions about commands and of the commands' ends: one JSON
// line for each.
//
// # Promise
//
//   - Lines are complete and in order. Each is one write at the end of the file, under a lock that
//     all processes take, and is on the disk when Append returns. If a writer was killed within a
//     line, the next writer begins a new line. A line's time is the time of its write, under the
//     lock.
//   - A line is printable ASCII of limited length, whatever the command's arguments contain: no
//     argument can forge a line, or act on a terminal that shows the log.
//   - A line that Append could not write completely is an error, and no part of it stays.
//   - The file grows. A program that renames it, such as logrotate, need not tell any writer: the next line
//     begins a new file.
//   - Append follows no symlink, and writes to no fifo, and no stranger's file in a directory that
//     everybody can write to.
//
// # Limits
//
// The log belongs to the user: a program that runs as the user outside of a sandbox can change it.
// For a log that nobody can change, let a collector read the file at once, or make the file
// append-only (chattr +a); then the part of a line that a full disk left stays.
//
// A program that can read the file can lock it, and so stop all writers. This includes a sandbox
// that shows the file.
//
// Between a kill within a write and the next write, a reader may see an incomplete last line. On a
// network file system without working locks, writers on several machines can damage one another's
// lines.
package audit
