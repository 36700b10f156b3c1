// Package denial says what of a command's failure its sandbox explains: which path is not
// shown or cannot be written, which name on the network was refused, which limit was
// reached, and what in the definition holds that.
//
// What a traced command failed at is looked up in the same way. Most of it begins with the command's own words: its arguments, and what it wrote to its
// standard error. These can name anything. So each is looked up - in the table, and on the
// machine - and told only if the sandbox is the reason. What is still a guess says so. Nothing
// here proposes to open what hides secrets, or leads out of the sandbox: the rule is named.
//
// The package does not look at the machine: it is told.
package denial
