// Package review keeps what commands write to a workspace beside it, until somebody has looked at it:
// it says what is different, carries it over, takes it back or throws it away.
//
// What commands write is the upper directory of an overlay file system, which an engine mounts. This
// package mounts nothing and knows no engine: it reads the two layers as they lie on the disk while
// nobody has the overlay mounted.
//
// # What it holds
//
//   - Nothing that lies in a review reaches the workspace but by [Review.Apply], and that is
//     all or nothing: each file is renamed, a journal says which, and whoever opens the
//     review next takes back what a killed one has left half done.
//   - Both layers are walked by directory descriptors, beneath the workspace, through no symlink
//     and onto no other mount. What commands have made there is never followed.
//   - A file that the host has changed since the review began is a conflict, and none of that is lost:
//     what is replaced or removed lies in the review until the next apply, for [Review.Undo].
//
// # Limits
//
// The kernel's overlay does not tell what a file was when a command changed it first. So the
// change times of the host's files, which nobody can set, are compared with when the review began. This does not
// find a file that the host has removed since, nor a directory that it has put in the place of another: the files in
// that keep their times. Times of directories and owners are not carried over by themselves. What a power cut leaves is
// what the file system makes of renames.
package review
