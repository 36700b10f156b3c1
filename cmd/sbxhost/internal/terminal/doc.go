// Package terminal connects sbxhost's own terminal to a command: keys, signals, stops and the size.
// It then restores the terminal.
package terminal
