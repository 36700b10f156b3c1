// Package replace writes files that a person has named, whole or not at all, and not by way
// of a symlink that a command can have made.
package replace
