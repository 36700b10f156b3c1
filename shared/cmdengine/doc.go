// Package cmdengine makes a [shared.Engine] out of one function that turns a policy and a command
// into a command line. An engine with a launcher, such as bwrap, sandbox-exec, firejail or nice,
// writes that function and no code for processes.
//
// # What it does
//
//   - One OS thread, which lives as long as the process, makes every fork. Parent-death signals, as
//     of bwrap's --die-with-parent, follow the thread that forked, not its process: at the end of a
//     goroutine's thread they would kill a running command. On Linux the launcher, or the command
//     without one, dies with the engine.
//   - A command's status is the kernel's: code, signal, core dump. A command that cannot be
//     executed is ErrNotFound or ErrNotExecutable, never a status.
//   - A timeout sends SIGTERM (and SIGCONT, so that a stopped command can act) and, after the
//     grace, kills everything.
//   - It refuses, by name, a feature that [shared.Info] lacks, whatever the host did, unless the
//     Spec accepts the loss ([shared.Spec.Without]), and an option that its schema lacks.
//   - Close, the context of Start, and a Start that races with Close leave no process behind.
//
// # With an init
//
// With [Config.Init] the launcher runs package sandboxinit's init, and the init runs the command.
// The launcher has an empty environment, a null stdin and stdout, and a stderr that explains a
// failure; the command gets none of them. Wait returns when the launcher and its children are gone,
// or when an init without a launcher has reported that it is alone. With a pid namespace, these are
// all processes that the command started. If somebody kills the launcher or init, Wait returns an
// ErrBroken that says so.
//
// With [Config.HoldLimits] a control group (package cgroup) bounds memory, processor time and
// processes of all that the command starts. The launcher and the init enter it before the command
// runs. The group is gone when Wait returns.
//
// The launcher must pass on descriptors: the init's executable and its control socket keep their
// numbers inside. These follow the launcher's ExtraFiles, which begin at 3. The command's three files
// go over the control socket. A launcher need not be the parent of the init: for a container CLI,
// the container's monitor is. The init ends when its control socket closes, which only the engine
// holds, and [Config.ClearsUp] gives the launcher time to remove its record. Such a launcher also
// needs [View] and [Config.Filter].
//
// # Without an init
//
// The command, or a launcher that replaces itself with it, runs in a session of its own. At its end
// its process group is killed. Processes that left the group survive, also when the engine is
// killed; on systems other than Linux the command itself then survives too. A launcher's own
// failure looks like the command's: use [LookPath] in Launch to find commands as the launcher will.
//
// # Limits
//
// A Spec's User needs an engine process that is root. Terminals belong to the host
// ([shared.FeatureTTY]); this package does not serve engines that make their own.
package cmdengine

// An engine (config.go, engine.go) refuses what it cannot enforce (admit.go, identity.go,
// limits.go) and opens a sandbox (sandbox.go), for which it may keep state (attach.go). A command
// starts without an init (direct.go) or with one (inside.go): as a member of a persistent session
// (session.go), in a spare (spare.go), or in a new sandbox (launch.go). Each is a runningCommand
// (insiderun.go, insideend.go), and process.go waits for its end. execerror.go explains why a
// command did not start. view.go is for launchers that mount by path; authors.go has helpers for
// engines.
