// Package stdio makes the files that a command gets as its standard input and
// output from what its caller has given: readers and writers, files, or terminals.
// It copies what passes through them while the command runs, and ends that with it.
//
// A terminal of the caller's never reaches the command. The package makes a pair
// in its place, and is the only room that knows of terminals.
package stdio

// TerminalSize is a window size in character cells.
type TerminalSize struct {
	Rows, Cols uint16 // zero is a size that nobody knows
}
