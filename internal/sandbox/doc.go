// Package sandbox opens the sandbox of a definition in an engine, decides which engine
// that is, and keeps it open for the commands that follow. A command's start, its end and
// who may approve it are package host's.
package sandbox
