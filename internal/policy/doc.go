// Package policy decides whether a command may run, and whether inside a
// sandbox: [Decide] turns [Facts] into a [Decision] that names its [Rule].
//
// # Promise
//
//   - It is pure: the same facts give the same decision, and nothing is read,
//     asked or remembered here.
//   - The zero Decision denies, and so do the zero Facts.
//   - A command is unsandboxed only if a person said so: by an approval, by
//     the mode "always", or by naming an engine that does not isolate. The mode
//     "deny" forbids each of these.
//   - A bypass that is asked for and not allowed is denied, whatever else
//     holds; it never ends in a run inside a sandbox either, since that is not
//     what was asked.
//
// # Limits
//
// Facts are believed. That the engine works, what is stored, and who wrote the
// definition is for the caller to find out: package host does.
//
// # Naming an engine that does not isolate
//
// A definition with engine = "noop" says in as many words that its commands
// run unisolated, and a definition is its user's word: one that was found in a
// workspace counts only once the user has trusted its text. So naming such an
// engine is the approval, in the modes "ask" and "always". It is none in the
// mode "deny", which is there to forbid just that. What "auto" finds is never
// such an engine.
package policy
