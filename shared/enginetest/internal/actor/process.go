package actor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// survivorLife is how long a daemon stays that nobody ends: longer than the longest
// timeout of a command that leaves one, and outlivePatience after it.
const survivorLife = 3 * time.Minute

// processActions work on processes, in ways that every unix has.
func processActions() map[string]action {
	return map[string]action{
		"hold":      hold,
		"daemon":    daemon,
		"survive":   survive,
		"die":       die,
		"run":       runTool,
		"kill-init": killInit,
		"spawn": func(args []string) (string, error) { // N
			return atOnce(number(args[0]), func() *exec.Cmd { return exec.Command("/bin/sh", "-c", "echo; read x; exit 0") })
		},
		"allocate": func(args []string) (string, error) { // N MIB, in each of them
			return atOnce(number(args[0]), func() *exec.Cmd { return self("hold", args[1]) })
		},
		"open-files": openFiles,
		"burn":       burn,
		"stream":     stream,
		"variables": anyOf(func(name string) (string, error) {
			if value, ok := os.LookupEnv(name); ok {
				return value, nil
			}
			return "", errors.New("none of them is set")
		}),
	}
}

// self prepares another process of the kit with an action.
func self(action string, args ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		exe = os.Args[0]
	}
	cmd := exec.Command(exe, append([]string{Arg, action}, args...)...)
	cmd.Env = os.Environ()
	return cmd
}

// daemon leaves a process behind that has left the session, ignores signals
// and holds the outputs; then it ends as KIND says.
func daemon(args []string) (string, error) {
	cmd := self("survive", args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	r, w, err := os.Pipe()
	tried(err)
	cmd.ExtraFiles = []*os.File{w}
	tried(cmd.Start())
	w.Close()
	r.Read(make([]byte, 1)) // it ignores signals by now
	detail := fmt.Sprintf("pid %d ", cmd.Process.Pid)
	switch args[0] {
	case "die":
		say(Verdict{Got, detail})
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "stopped":
		syscall.Kill(cmd.Process.Pid, syscall.SIGSTOP)
	case "stay":
		say(Verdict{Got, detail})
		time.Sleep(survivorLife)
	}
	return detail, nil
}

func survive([]string) (string, error) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGPIPE)
	ready := os.NewFile(3, "ready")
	ready.Write([]byte{1})
	ready.Close()
	time.Sleep(survivorLife)
	return "", nil
}

// die ends this process by a signal whose default action is not the Go runtime's.
func die(args []string) (string, error) {
	sig := syscall.Signal(number(args[0]))
	if sig == syscall.SIGKILL { // which has no disposition to take away
		return "", errors.Join(syscall.Kill(os.Getpid(), sig), errors.New("it lives on"))
	}
	return "", dieBy(sig)
}

func runTool(args []string) (string, error) {
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if len(out) > 200 {
		out = out[:200]
	}
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return string(out), nil
}

// killInit sends what would end any other process to the first one, and must
// not live to tell if that helps. The host's own, in the pid namespace LINK,
// gets none of it: there, to share the namespace is enough.
func killInit(args []string) (string, error) {
	link, err := os.Readlink("/proc/self/ns/pid")
	tried(err)
	if link == args[0] {
		return "the first process is the host's", nil
	}
	errs := []error{errors.New("it lives on")}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGSTOP, syscall.SIGKILL} {
		errs = append(errs, syscall.Kill(1, sig))
	}
	return "", errors.Join(errs...)
}

// atOnce starts N processes, which are there at once.
func atOnce(n int, process func() *exec.Cmd) (string, error) {
	var children []*Child
	for i := range n {
		c, err := StartChild(process())
		if err != nil {
			return "", fmt.Errorf("after %d: %w", i, err)
		}
		defer c.Process.Kill()
		children = append(children, c)
	}
	// The one that is killed may have had its memory for long.
	for _, c := range children {
		if err := c.End(); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d at once", n), nil
}

func openFiles(args []string) (string, error) {
	n := number(args[0])
	for i := range n {
		f, err := os.Open(os.Args[0])
		if err != nil {
			return "", fmt.Errorf("after %d: %w", i, err)
		}
		defer f.Close()
	}
	return args[0] + " are open", nil
}

// burn computes for a time and succeeds if it got that much of a processor.
func burn(args []string) (string, error) { // at most WALL, until CPU is used
	wall, err1 := time.ParseDuration(args[0])
	least, err2 := time.ParseDuration(args[1])
	tried(errors.Join(err1, err2))
	ever := func() time.Duration {
		var usage syscall.Rusage
		tried(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
		return time.Duration(usage.Utime.Nano())
	}
	x := 1
	var used time.Duration
	before := ever() // what it took to get here, on a slow machine
	for begin := time.Now(); time.Since(begin) < wall && used < least; used = ever() - before {
		for range 100_000 {
			x = x*31 + 7
		}
	}
	detail := fmt.Sprintf("%v of processor time in %v (%d)", used, wall, x&1)
	if used < least {
		return "", errors.New(detail)
	}
	return detail, nil
}

// A Child is a process that does as it is told until it is ended.
type Child struct {
	*exec.Cmd
	in io.WriteCloser
}

// StartChild starts one, and waits for its first word.
func StartChild(cmd *exec.Cmd) (*Child, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &Child{cmd, in}
	if _, err := out.Read(make([]byte, 16)); err != nil {
		c.End()
		return nil, fmt.Errorf("process %d does not speak: %w", cmd.Process.Pid, err)
	}
	return c, nil
}

// End lets it end, and waits for that.
func (c *Child) End() error {
	c.in.Close()
	return c.Wait()
}

// hold waits for the end of standard input, with MIB of memory if it is asked for.
func hold(args []string) (string, error) { // [MIB]
	var memory []byte
	if len(args) > 0 {
		memory = make([]byte, number(args[0])<<20)
	}
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	fmt.Println("holding")
	_, err := io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(memory)
	return "", err
}
