// Package workspace keeps a caller's paths inside the directories it declared.
//
// # What it promises
//
// A [Workspace] has a project root and any number of further roots, read-only or read-write, all
// resolved once by [New]. [Workspace.ResolveDir] refuses a directory that leaves every root. It
// compares components, so /a/b-evil is not inside /a/b. Its result is true only at the moment of the
// call: to open files in a root that commands write to, use [os.Root].
//
// [GitDirs] finds the git directories of a repository, worktree or submodule, and
// [Workspace.GitControls] what a git on the host obeys there. [Workspace.GitActions] finds what git
// would act on in a repository that a command has made or changed. They run no program that commands
// can write: they only ask git for its configuration.
//
// Commands cannot write what git obeys. If such a path does not exist, the host holds a stub there,
// so that commands cannot create it. GitLayout.Present is the exception: those paths are protected
// if they exist, and never held.
//
// # What it does not promise
//
// Mount points inside a root are part of it. On a case-insensitive file system a path must spell
// its root as the root was given: ResolveDir refuses other spellings.
//
// The package needs the *at system calls, so Linux or macOS.
package workspace
