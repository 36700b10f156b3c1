// Package policy decides whether a command may run, and whether inside a sandbox: [Decide] turns
// [Facts] into a [Decision] that names its [Rule].
//
// # Promise
//
//   - The package is pure: the same facts give the same decision. It reads nothing, asks nobody,
//     and remembers nothing.
//   - The zero Decision denies, and so do the zero Facts.
//   - A command runs unsandboxed only if a person said so: by an approval, by the mode "always", or
//     by the name of an engine that does not isolate. The mode "deny" forbids all three.
//   - A requested bypass without permission is denied in every case. It also never ends in a run
//     inside a sandbox, because the caller did not ask for that.
//
// # Limits
//
// Decide believes the facts. The caller must find out whether the engine works, what is stored, and
// who wrote the definition: package host does this.
//
// # An engine that does not isolate
//
// A definition with engine = "noop" says expressly that its commands run unisolated, and its user
// stands for the definition: one in a workspace counts only after the user has trusted its text. So
// this name is the approval, in the modes "ask" and "always". In the mode "deny" it is not: that
// mode exists to forbid this. "auto" never chooses such an engine.
package policy
