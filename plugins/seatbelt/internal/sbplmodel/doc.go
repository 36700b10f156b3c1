// Package sbplmodel is a model of the sandbox profile language of macOS, for
// tests on machines that have no such sandbox: it parses a profile and says what
// the kernel would decide of an access.
//
// It knows the part of the language that package seatbelt writes, and refuses
// everything else: an operation or a filter that it does not know is an error,
// for on a Mac it would be one too, or mean something that nobody has thought of.
//
// # Precedence
//
// Apple documents none. [Documented] is what others have measured:
//
//   - Of two rules of one operation that have filters and match, the later wins.
//   - A rule without a filter is its operation's default: it does not override
//     one with a filter, in either order.
//   - A rule for a specific operation wins over one for a wildcard that covers
//     it, in either order.
//
// [LastMatch] is what most people believe: the last rule that matches, of
// whatever operation. A profile whose verdicts are the same under both does not
// depend on which is right.
//
// # Paths
//
// The kernel matches the path of the file that was found, not the one that was
// asked for. A [FileSystem] is a small world in which to resolve names: symbolic
// links, firmlinks of the data volume, names in another case or another form of
// Unicode, /.vol paths, and files with several names.
package sbplmodel
