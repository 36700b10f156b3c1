// Package review keeps what commands write to a workspace beside it, until somebody has looked at
// it. It lists the changes, applies them, undoes that, or discards them.
//
// Commands write to the upper directory of an overlay file system, which an engine mounts. This
// package mounts nothing and knows no engine: it reads both layers on the disk while the overlay is
// not mounted.
//
// # What it promises
//
//   - A review's files reach the workspace only by [Review.Apply], all or nothing: it renames each
//     file, a journal records that, and the next process that opens the review takes back what a
//     killed one left.
//   - It walks both layers by directory descriptors, beneath the workspace, through no symlink and
//     onto no other mount. It never follows what commands have made.
//   - It refuses, or names, what makes git on the host execute or obey something new. Each path counts in
//     every git directory around it, before and after the changes of all layers.
//   - A file that the host has changed since the review began is a conflict, and nothing of it is
//     lost: replaced and removed files stay in the review until the next apply, for [Review.Undo].
//
// # Limits
//
// The kernel's overlay does not record the state of a file before a command's first change. So this
// package compares the change times of the host's files, which nobody can set, with the beginning
// of the review. It does not notice a file that the host has removed since, nor a directory that
// the host has replaced by another: the files in it keep their times. It does not apply changes of
// only a directory's times, or of owners. After a power cut, the file system decides which renames
// are left.
package review
