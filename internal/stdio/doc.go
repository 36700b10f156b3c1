// Package stdio makes the files that a command gets as its standard input and output from the
// caller's streams: readers and writers, files, or terminals. It copies between them while the
// command runs, and ends the copies with the command.
//
// A terminal of the caller never reaches the command. The package gives the command a terminal pair
// of its own instead, and no other package knows terminals.
package stdio

// TerminalSize is a window size in character cells.
type TerminalSize struct {
	Rows, Cols uint16 // zero means unknown
}
