// Package execute runs a command in a sandbox: it relays the terminal and signals, tells what
// happens, writes -result and -events, and has a server run what is to stay.
package execute
