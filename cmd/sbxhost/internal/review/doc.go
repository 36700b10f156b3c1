// Package review shows what commands have written under -review, applies it, and takes it back.
package review
