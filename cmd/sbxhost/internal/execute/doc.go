// Package execute runs commands: exec and shell, for its own caller or for a client of a server.
//
// An Execution (exec.go) is one run. It runs in this process (run.go), or in the server that holds its
// session (kept.go). prepare.go reads the configuration and makes the command, run.go relays signals and the
// terminal to it, messages.go tells what a person should know, and result.go and events.go what another
// program does. remote.go is how a server runs one for its client.
package execute
