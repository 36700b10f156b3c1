// Package cmdengine makes a [shared.Engine] out of one function that turns a
// policy and a command into a command line. An engine whose mechanism is a
// launcher - bwrap, sandbox-exec, firejail, nice - writes that function and
// nothing about processes.
//
// # What it holds
//
//   - Every fork is made by one OS thread that lives as long as the engine.
//     Parent-death signals, bwrap's --die-with-parent among them, follow the
//     thread that forked, not its process: from a goroutine's thread they would
//     kill a command that is well and running. On Linux the launcher, or the
//     command where there is none, dies with the engine.
//   - The status of a command is the kernel's own: code, signal, core dump. A
//     command that could not be executed is ErrNotFound or ErrNotExecutable, and
//     never a status.
//   - A timeout sends SIGTERM (and SIGCONT, so that a stopped command can act on
//     it) and, after the grace, kills everything.
//   - A [shared.Spec] that asks for a feature that [shared.Info] does not list is
//     refused by name, whatever host it came from, unless the Spec takes less
//     ([shared.Spec.Without]); so is an option that its schema lacks.
//   - Close, the context of Start, and a Start that races with Close leave no
//     process behind.
//
// # With an init
//
// With [Config.Init] the launcher runs package sandboxinit's init, and the init
// runs the command. The launcher has an empty environment, null stdin and
// stdout, and a stderr whose tail explains why it failed; none of them is the
// command's. Wait returns once the launcher and its children are gone, or once an init
// without a launcher has said that it is alone. With a
// pid namespace that is everything the command started, and a launcher or
// an init that is killed from outside is an ErrBroken that says so.
//
// With [Config.HoldLimits] memory, processor time and processes of all that the
// command starts are held by a control group (package cgroup). The launcher and the init are
// in it, too, before the command runs, and the group is gone when Wait returns.
//
// The launcher has to pass descriptors on: the executable of the init and its control socket,
// numbered from 3 behind the launcher's own, keep their
// numbers inside. The command's three files go over the control socket. It does not matter that a launcher is not the parent of what it starts,
// as with a container CLI, whose monitor is: the init ends with its line, which only
// the engine holds, and [Config.ClearsUp] lets the launcher remove its record.
// [View] and [Config.Filter] are what such a launcher needs besides.
//
// # Without an init
//
// The command, or a launcher that replaces itself with it, runs in a session
// of its own. Its process group is killed when it ends. What left the group
// survives, and so does what it started when the engine is killed; on systems
// other than Linux the command itself survives that, too. A launcher's
// own failure cannot be told from the command's: use [LookPath] in Launch to
// find commands where the launcher will.
//
// # To find the way
//
// An engine (config.go, engine.go) refuses what it cannot hold (admit.go, identity.go, limits.go) and
// opens a sandbox (sandbox.go), for which it may keep something (attach.go). A command is started there
// without an init (direct.go) or with one (inside.go): one more in a kept session (session.go), one
// that was made beforehand (spare.go), or a new one (launch.go). Either is a Run (insiderun.go, over
// initrun.go), which is seen to its end in process.go. Why a command was not started is told in
// execerror.go. For engines whose launchers mount by path there is view.go; authors.go has
// what many an engine's author needs.
//
// # Limits
//
// A Spec's User needs an engine process that is root. Terminals are the
// host's ([shared.FeatureTTY]); engines that make their own are not served here.
package cmdengine
