// Package denial says how a sandbox explains a command's failure: a path that is not shown or
// cannot be written, a refused name on the network, a reached limit, and the attribute of the
// definition that causes it.
//
// Most findings start from the command's own words: its arguments, and its standard error. These
// can name anything. So the package looks up each of them, in the table and on the machine, and
// reports it only if the sandbox is the reason. It marks the remaining guesses. It looks up the
// failed calls of a traced command in the same way. It never proposes to open a path that hides
// secrets or leads out of the sandbox: it names the rule instead.
//
// The package does not look at the machine itself: it asks a Machine.
package denial
