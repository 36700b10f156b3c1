// Package replace writes files that a person has named, completely or not at all. It follows no
// symlink that a command can have made.
package replace
