// Package approvals keeps what a person has approved: commands that may run
// without a sandbox, and configurations that may be obeyed.
//
// # Promise
//
//   - An approval is for one command: the exact arguments or script, the
//     variables that were set for it, its directory, its sandbox and its
//     workspace. Nothing in it is a pattern.
//   - The scope once is used up by the first command that needs it, whoever
//     else asks at that moment. The scope session ends with the login session
//     (or is tied to a named one) and with its time, which is measured by the
//     clock that counts from boot: setting the wall clock prolongs nothing, and
//     a reboot ends it.
//   - Trust is in the text of a configuration, at its path: a changed text is
//     not trusted.
//   - Writers in any number of processes lose nothing of one another's: each
//     change is made under a lock, and replaces the file whole.
//   - A store that somebody else could have written (owner, mode, a symlink),
//     or that makes no sense (truncated, another version), counts as empty. The
//     error says so, and the file is never overwritten: it may be evidence, or
//     the work of a newer version.
//
// # Limits
//
// The files are 0600 in a directory 0700, and a program that runs as the same
// user outside of every sandbox can write them as the user can. The files must
// therefore not be writable inside: package host sees to that. Such a program can
// also run this one in a time namespace, whose clock from boot it has set back.
//
// What a command reads from its standard input, and what the files hold that
// it names, is no part of an approval.
package approvals
