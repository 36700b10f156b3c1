// Package view decides what a command sees of files, and what it may write. From a definition and
// facts about the machine it makes one table of entries, which engines enforce and explanations
// print. It is the place to find out why a path is hidden or protected.
//
// Terms: commands can neither read nor write a hidden path, and cannot write a protected path. A
// held path does not exist, but a stub is there so that no command can create it.
//
// The package itself reads nothing. Facts describes the machine, and tests make their own. There
// are two steps, Show and View.Restrict, because the search for paths to hide depends on what is
// shown.
package view
