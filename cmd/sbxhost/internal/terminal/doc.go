// Package terminal passes what happens at sbxhost's own terminal on to a command: keys,
// signals, stops and its size. It gives the terminal back as it was.
package terminal
