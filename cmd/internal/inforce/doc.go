// Package inforce prepares a configuration for a program that runs commands in its user's name. It
// finds the configuration in force, requires the user's trust in the text of one in the workspace,
// and adds the options of the environment.
//
// # Promise
//
// A configuration in the workspace has no effect before its user has trusted its text: the package
// parses exactly the bytes that it compared. Environment variables come from the user, and have
// precedence over a file.
//
// # Limits
//
// A program that runs as the user outside of a sandbox can trust a configuration in the user's
// name.
package inforce
