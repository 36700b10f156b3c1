// Package glob matches paths against patterns in which "*" and "?" stand for
// parts of one name and "**" for any number of directories.
//
//	secrets/prod.key   that path
//	*.pem              a name in the top directory
//	**/.env            that name at any depth, the top included
//	secrets/**         all that lies beneath, not the directory itself
//	build/             a directory only
//	key[0-9].txt       one of a set; [!0-9] is any other
//	what\?             a backslash takes the next character as it is
//	!vendor/**         in a Set, what is exempt from the patterns before it
//
// Patterns also match names that begin with a dot: patterns hide files, and a pattern that omitted
// dot files would hide less than it seems to. For the same reason braces, which other pattern
// languages have and this one has not, are an error unless they are escaped. "?" and a set stand
// for one character, or for one byte where a name is not UTF-8. Letters match only in the same
// case.
//
// A Set holds many patterns. A walk down a tree follows it one name at a time, and learns at each
// directory whether to enter it. The cost of a step does not depend on the steps before it, and no
// pattern takes exponential time.
//
// The package reads no file system.
package glob
