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
// A name that begins with a dot is matched like any other: patterns hide
// things, and one that passed over dot files would hide less than it seems to.
// For the same reason braces, which other languages have and this one has not,
// are an error unless they are escaped. "?" and a set stand for one character,
// or for one byte of a name that is not UTF-8 there. Letters match in their own
// case alone.
//
// A Set holds many patterns and is followed one name at a time, so that a walk
// down a tree learns at each directory whether it is worth entering. The cost
// of a step does not depend on what was passed on the way, and no pattern takes
// exponential time.
//
// The package reads no file system.
package glob
