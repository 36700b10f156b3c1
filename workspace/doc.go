// Package workspace keeps a caller's paths inside the directories it declared.
//
// # What it promises
//
// A [Workspace] has a project root and any number of further roots, read-only
// or read-write, all resolved once by [New]. [Workspace.ResolveForRead] and
// [Workspace.ResolveForWrite] return the absolute, symlink-free spelling of a
// path and refuse one that leaves every root, whatever it is made of: "..",
// symlinks, dangling symlinks, chains of them, components that do not exist
// yet. A comparison is by component, so /a/b-evil is not inside /a/b.
//
// What they return was contained at the moment of the call. A workspace is
// full of other people's programs, which may swap a directory for a symlink
// the moment after. So what must stay contained is opened by [Workspace.Open]
// or [Workspace.OpenFile], where the kernel follows no symlink at all, and not
// by handing a resolved path to package os.
//
// [GitDirs] finds the git directories of a worktree or submodule, [Workspace.GitControls]
// what a git on the host obeys there, [Workspace.Identity] the git identity in force at
// the root, and [Workspace.Inspect] and [Workspace.GitActions] what git would act on in a
// repository that a command has made or changed. None runs anything that the workspace
// controls: git is asked for its configuration, which it reads and does not obey.
//
// What git obeys is protected: commands cannot write it. Where a path of it does not
// exist, its place is held, so that commands cannot create it either. GitLayout.Present
// is the exception: those paths are protected if they exist, and never held.
//
// # What it does not promise
//
// Hard links cannot be told from the file itself: a name inside a root that is
// a second name of a file outside passes. Mount points inside a root are part
// of it. On a case-insensitive file system a path must spell its root as the
// root was given; another spelling is refused rather than allowed.
//
// The package needs the *at system calls, that is, Linux or macOS.
package workspace
