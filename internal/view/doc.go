// Package view decides what a command sees of files, and what it may write: from a
// definition and facts about the machine it makes one table of entries, which
// engines carry out and explanations print. Whoever asks why a path is hidden or
// protected finds the answer here.
//
// Words: what is hidden can be neither read nor written; what is protected cannot
// be written; what is held has its place kept while it does not exist, so that no
// command can create it.
//
// The package looks at nothing itself. What the machine is like is told by Facts,
// which tests fabricate. The work has two steps, since what is searched for what
// must be hidden depends on what is shown: Show, and then View.Restrict.
package view
