package review

import (
	"errors"
	"path"
	"syscall"
)

// Errors, which are wrapped.
var (
	// ErrInUse: a process has the review mounted, or is about to.
	ErrInUse = errors.New("the review is in use: a command of it runs")
	// ErrPlace: what a review keeps cannot lie beside the workspace.
	ErrPlace = errors.New("no review is possible here")
	// ErrName: no name of a review.
	ErrName = errors.New("not a name of a review")
	// ErrReach: commands with other credentials have begun the review.
	ErrReach = errors.New("another review is needed")
	// ErrChanged: the review is not what it was when it was looked at.
	ErrChanged = errors.New("the review has changed since it was looked at")
	// ErrUndo: there is nothing to undo, or it cannot be.
	ErrUndo = errors.New("nothing can be undone")
)

// Base is the directory that has the reviews of a workspace, and maybe those of its
// neighbours. No command may see it.
func Base(root string) string { return path.Join(path.Dir(root), ".sbxhost-reviews") }

var errTooLarge = errors.New("the review is too large")

// isShortage reports whether an error is no matter of one path: the machine has too little of something, or the review
// has too much.
func isShortage(err error) bool {
	for _, one := range [...]error{errTooLarge, syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}
