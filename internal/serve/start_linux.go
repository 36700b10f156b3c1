package serve

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// Dir is the directory of the server's socket: beneath the directory in XDG_RUNTIME_DIR, or else
// beneath that of the user's login, which may not exist. Root has one without a login.
func Dir(runtimeDir string) (string, error) {
	switch {
	case filepath.IsAbs(runtimeDir):
	case runtimeDir != "":
		return "", ErrNoRuntimeDir
	case os.Geteuid() == 0:
		runtimeDir = "/run"
	default:
		runtimeDir = "/run/user/" + strconv.Itoa(os.Geteuid())
	}
	return filepath.Join(runtimeDir, "sbxhost"), nil
}

// AskUser is Ask for the server of this user, which it starts if there is none. runtimeDir is as of
// Dir.
func (c *Client) AskUser(runtimeDir string, program *hostpath.Program) (status int, ended syscall.Signal, err error) {
	dir, err := Dir(runtimeDir)
	if err != nil {
		return 0, 0, err
	}
	path := filepath.Join(dir, Socket)
	status, ended, err = c.Ask(path, program.Path())
	if err != ErrAbsent {
		return status, ended, err
	}
	if err := StartUser(program, dir); err != nil {
		return 0, 0, fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	return c.Ask(path, program.Path())
}

// StartUser starts the server of this user, with its socket in a directory of Dir.
func StartUser(program *hostpath.Program, dir string) error {
	if err := startable(dir); err != nil {
		return err
	}
	// No other variables of its first client.
	return Start(program, []string{"XDG_RUNTIME_DIR=" + filepath.Dir(dir)}, "-detached")
}

// startable says why no server for others is started with its socket in a directory.
func startable(dir string) error {
	above, err := hostpath.Trusted(filepath.Dir(dir))
	if err == nil {
		err = hostpath.CheckPrivate(above)
	}
	if err != nil {
		return err
	}
	if strings.HasPrefix(above+"/", "/tmp/") || strings.HasPrefix(above+"/", "/var/tmp/") {
		return fmt.Errorf("others could replace a socket in %s", hostpath.Quote(above))
	}
	return Servable()
}

// Servable says why no server serves this process, whatever the server is.
func Servable() error {
	if status, err := os.ReadFile("/proc/self/status"); err != nil {
		return err
	} else if proc.StatusField(string(status), "NoNewPrivs") != "0" {
		return errNoNewPrivs
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	pidfd, err := unix.GetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if err != nil {
		return os.NewSyscallError("SO_PEERPIDFD", err) // before Linux 6.5
	}
	return unix.Close(pidfd)
}

// closedInChild makes a child inherit none of the files that are open here: each entry is nil.
func closedInChild() ([]*os.File, error) {
	open, err := os.ReadDir("/proc/self/fd")
	last := 2
	for _, entry := range open {
		if fd, err := strconv.Atoi(entry.Name()); err == nil {
			last = max(last, fd)
		}
	}
	return make([]*os.File, last-2), err
}

// Start starts a program as a server, and waits until it serves or says why it cannot. The server
// belongs to no terminal, inherits no open file of this process, and outlives it.
func Start(program *hostpath.Program, environ []string, args ...string) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	server := program.Command(context.Background(), append([]string{"serve"}, args...)...)
	server.Env = append(server.Env, environ...)
	server.Stderr, server.SysProcAttr = write, &syscall.SysProcAttr{Setsid: true}
	// A lock or a pipe of the caller's would stay open for as long as the server runs. This process
	// keeps them: it may become sbxhost exec.
	if server.ExtraFiles, err = closedInChild(); err == nil {
		err = server.Start()
	}
	write.Close()
	if err != nil {
		return err
	}
	defer server.Process.Release()
	line, _ := bufio.NewReader(read).ReadString('\n')
	line = strings.TrimPrefix(strings.TrimSpace(line), "sbxhost: ")
	if strings.HasPrefix(line, "serving ") || strings.Contains(line, ErrServed.Error()) {
		return nil
	}
	return errors.New(cmp.Or(line, "it ended before it served"))
}
