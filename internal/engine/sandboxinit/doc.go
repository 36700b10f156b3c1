// Package sandboxinit is the first process inside a sandbox, and the engine's control socket to it.
//
// A launcher such as bwrap cannot tell its caller what a host must know: its own failure and the
// command's share one exit status and one stderr, exit 143 and death by SIGTERM look alike, signals
// to it do not reach the command, and processes outside of the sandbox can read its environment. So
// the launcher starts with an empty environment and runs this init as pid 1. The init reads the
// [Command] from a control socket, starts it in a session of its own, reaps orphans, passes signals
// to the command's process group, reports the errno of a command that could not start and the exact
// wait status of one that did, and exits with the command, which ends the pid namespace.
//
// # An engine's use
//
//	bin, err := sandboxinit.Locate()
//	exe, err := bin.Open()                        // fd 3 of the launcher
//	engineEnd, initEnd, err := sandboxinit.Pair() // fd 4
//	launcher := exec.Command("/usr/bin/bwrap", append(options, sandboxinit.Argv(3, 4)...)...)
//	launcher.Env = []string{}
//	launcher.ExtraFiles = []*os.File{exe, initEnd}
//	err = launcher.Start()
//	initEnd.Close()
//	conn := sandboxinit.NewConn(engineEnd)
//	err = conn.Complete([3]*os.File{stdin, stdout, stderr}, nil)
//	err = conn.Start(ctx, cmd)                    // *ExecError, or ErrInitLost: see the launcher's stderr
//	status, err := conn.Wait()
//	launcher.Wait()                               // only now is everything inside gone
//
// The launcher's fds 0 to 2 stay the engine's: messages of the launcher or the init there never mix
// with the command's output.
//
// # What the sandbox must provide
//
// A /proc of its own pid namespace. An executable that needs nothing from the sandbox's file
// system: a static one (CGO_ENABLED=0). Fds that are inherited through the launcher.
//
// # Promise
//
//   - The command has exactly the arguments, environment, directory and resource limits of its
//     [Command]; no open fd except 0, 1 and 2 (and fd 3 until the shell of a [Command.Script] over
//     96 KiB has reopened it); default signal dispositions; the soft RLIMIT_NOFILE that the
//     launcher started with, not the one that the Go runtime raises for itself.
//   - A command without capabilities cannot trace the init, read its memory or reach its fds: the
//     init is not dumpable.
//   - No signal from the command ends or stalls the init while it is pid 1.
//   - Nothing outlives the command, nor the engine: the end of either ends pid 1, and with it every
//     process of the namespace.
//
// # Limits
//
// If the init is not pid 1 (a launcher without a pid namespace) it is a child subreaper, and at the
// end it kills its descendants, from /proc, generation by generation, until none is left. A fork
// bomb may be faster, and everything survives if somebody kills the init with SIGKILL. Only a pid
// namespace is certain.
//
// A signal request goes to the command's process group. An interactive shell signals its own jobs
// in other groups. A stopped command stays stopped, and a SIGTERM sent to it stays pending, until
// SIGCONT or SIGKILL: send one after the other. Stops are not reported.
package sandboxinit
