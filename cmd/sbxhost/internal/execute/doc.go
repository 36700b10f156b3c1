// Package execute runs commands, for exec and shell, for its own caller or for a client of a
// server.
//
// An Execution (exec.go) is one run. It runs in this process (run.go), or in the server that holds
// its session (kept.go). prepare.go reads the configuration and makes the command, run.go relays
// signals and the terminal to it, messages.go writes messages for people, and result.go and
// events.go write output for programs. With remote.go, a server runs a command for its client.
package execute
