// Package inforce makes ready, for a program that runs commands in its user's name, what holds
// for them: it finds the configuration in force, holds one that lies in the workspace to
// the user's trust in its text, and adds what the environment says.
//
// # Promise
//
// Nothing of a configuration that was found in the workspace counts before its user has trusted
// its text: what is parsed are the bytes that were compared. A variable of the environment is
// the user's word, and goes before a file.
//
// # Limits
//
// Whoever can run programs as the user, outside of a sandbox, can trust in the user's name.
package inforce
