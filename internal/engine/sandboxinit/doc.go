// Package sandboxinit is the first process inside a sandbox and the engine's
// line to it.
//
// A launcher such as bwrap cannot tell its caller what a host must know: its
// own failure and the command's share one exit status and one stderr, exit 143
// and death by SIGTERM look alike, signals sent to it do not arrive, and the
// variables of its process are read outside the sandbox. So the launcher starts
// with an empty environment and runs this init as pid 1. The init reads the
// [Command] from a control socket, starts it in a session of its own, reaps
// what is orphaned, passes signals to the command's process group, reports the
// errno of a command that could not be started and the exact wait status of one
// that was, and exits when the command is done, which ends the pid namespace.
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
// The launcher's fds 0 to 2 stay the engine's: what the launcher or the init
// has to say there never mixes with the output of the command.
//
// # What the sandbox must provide
//
// A /proc of its own pid namespace. An executable that needs nothing from the
// sandbox's file system, that is, a static one (CGO_ENABLED=0). Fds that are
// inherited through the launcher.
//
// # Promise
//
//   - The command has exactly the arguments, environment, directory and resource
//     limits of its [Command]; no open fd but 0, 1 and 2 (and fd 3 until the
//     shell of a [Command.Script] over 96 KiB has opened it anew); default signal dispositions;
//     the soft RLIMIT_NOFILE that the launcher was started with, not the one that
//     the Go runtime raises for itself.
//   - A command without capabilities cannot trace the init, read its memory or
//     reach its fds: the init is not dumpable.
//   - No signal from the command ends or stalls the init while it is pid 1.
//   - Nothing outlives the command, nor the engine: the end of either ends pid 1,
//     and with it every process of the namespace.
//
// # Limits
//
// When the init is not pid 1 (a launcher without a pid namespace) it is a child
// subreaper, and at the end it kills its descendants generation by generation,
// as found in /proc, until none is left. A fork bomb may outrun that, and
// everything survives an init that is itself killed with SIGKILL. Only a pid
// namespace makes it certain.
//
// A signal request reaches the command's process group. Jobs that an
// interactive shell moved to groups of their own are the shell's to signal.
// A stopped command stays stopped, and a SIGTERM sent to it stays pending,
// until SIGCONT or SIGKILL: follow the one with the other. Stops are not reported.
package sandboxinit
