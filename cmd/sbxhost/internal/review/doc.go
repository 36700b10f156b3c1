// Package review has the commands that show, apply and undo what commands wrote under -review.
package review
