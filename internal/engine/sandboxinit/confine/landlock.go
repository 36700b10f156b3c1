// Package confine is what a thread of the init gives up, for ever and in the kernel, before it
// executes a command: files with Landlock, system calls with a filter, and capabilities.
package confine

// A Landlock is a domain of Linux's Landlock. Its numbers are the kernel's.
type Landlock struct {
	Handled uint64 // rights on files that are refused without a Rule
	Scoped  uint64 // what must stay within the domain
	Rules   []Rule // what the command may do nevertheless
}

// A Rule grants rights on a file, or on all in a directory.
type Rule struct {
	Path     string // absolute, on the host
	Access   uint64 // LANDLOCK_ACCESS_FS_*
	Optional bool   // skip it if it cannot be opened
	Links    bool   // symlinks may lead there: no command can put one there
	Dev, Ino uint64 // of the file, from stat; an Ino of zero means any
}
