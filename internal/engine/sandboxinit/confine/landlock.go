// Package confine is what a thread of the init's gives up, by the kernel's own means and for
// good, before it executes a command: files by Landlock, system calls by a filter, and
// capabilities.
package confine

// A Landlock is a domain of Linux's Landlock. Its numbers are the kernel's.
type Landlock struct {
	Handled uint64 // what of files is refused but for the Rules
	Scoped  uint64 // what stays within the domain
	Rules   []Rule // what the command may do all the same
}

// A Rule lets a command do with a file, or with all that lies in a directory.
type Rule struct {
	Path     string // absolute, on the host
	Access   uint64 // LANDLOCK_ACCESS_FS_*
	Optional bool   // what cannot be opened is left out
	Links    bool   // symlinks may lead there: no command can put one in their place
	Dev, Ino uint64 // of what it is about, as stat has them; an Ino of zero is any
}
