package review

import (
	"errors"
	"path"
	"slices"
	"syscall"
)

// Errors, for errors.Is.
var (
	// ErrInUse: a process has mounted the review, or is about to.
	ErrInUse = errors.New("the review is in use by a command or a kept session")
	// ErrPlace: a review cannot store its files beside the workspace.
	ErrPlace = errors.New("no review is possible here")
	// ErrCredentials: commands with other credentials began the review.
	ErrCredentials = errors.New("another review is needed")
	// ErrChanged: the review has changed since somebody looked at it.
	ErrChanged = errors.New("the review has changed since it was looked at")
	// ErrUndo: there is nothing to undo, or undo is impossible.
	ErrUndo = errors.New("nothing can be undone")
)

// Base is the directory with the reviews of a workspace, and maybe those of its neighbours. No
// command may see it.
func Base(root string) string { return path.Join(path.Dir(root), ".sbxhost-reviews") }

var errTooLarge = errors.New("the review is too large")

// isShortage reports whether an error is not about one path: the machine lacks something, or the
// review is too large.
func isShortage(err error) bool {
	shortages := []error{errTooLarge, syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM}
	return slices.ContainsFunc(shortages, func(one error) bool { return errors.Is(err, one) })
}
