// Package session has what the commands of a Host share, and what outlives a command: a session's
// private directory with the home and /tmp, their size, the list of named sessions, and the stubs
// for missing paths, which stay for a moment after a command.
//
// It knows the directories. It does not decide who sees them.
package session
