// Package session has what the commands of a Host share, and what outlives a
// command: the private directory of a session, the home and the /tmp in it, their
// size, the list of the sessions that have a name, and the places of missing paths,
// which stay held for a moment after a command.
//
// It knows which directories there are, and decides nothing about who sees them.
package session
