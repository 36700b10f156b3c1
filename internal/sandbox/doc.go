// Package sandbox opens the sandbox of a definition in an engine, chooses that engine, and keeps
// the sandbox open for later commands. Package host handles a command's start, end and approval.
package sandbox
