// Package approvals stores what a person has approved: commands that may run without a sandbox, and
// trusted configurations.
//
// # Promise
//
//   - An approval is for one command: the exact arguments or script, the variables set for it, its
//     directory, its sandbox and its workspace. It contains no pattern.
//   - The first command that needs an approval of the scope once uses it up, even if several
//     commands ask at the same moment. An approval of the scope session ends with the login session
//     (or belongs to a named one), and after its time. That time is measured from boot: to set the
//     wall clock extends nothing, and a reboot ends it.
//   - Trust is for the text of a configuration at its path: a changed text is not trusted.
//   - Any number of processes can write, and lose no change: each change takes a lock, and replaces
//     the whole file.
//   - A store counts as empty if somebody else could have written it (owner, mode, a symlink), or
//     if it is invalid (truncated, another version). The error says so, and the package never
//     overwrites such a file: it may be evidence, or the work of a newer version.
//
// # Limits
//
// The files have mode 0600 in a directory of mode 0700. A program that runs as the same user
// outside of every sandbox can write them as the user can. So no command inside may write them:
// package host ensures that. Such a program can also run sbxhost in a time namespace whose boot
// clock it has set back.
//
// An approval covers neither a command's standard input nor the content of files that the command
// names.
package approvals
