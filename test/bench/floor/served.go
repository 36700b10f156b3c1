//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/test/bench/floor/pass"
)

// A served command takes at least this: its client, in the program bare, passes three descriptors to
// the server, the server to the engine, with a call of gRPC, and the engine to an init with seven new
// namespaces that has made its sandbox already. Nobody looks at anything, and nothing is reported.

// ahead is the control socket of the next init.
var ahead = make(chan int, 1)

// serveClients serves the clients at a socket, one after the other, and closes its standard output
// when it can.
func serveClients(path string) {
	runtime.LockOSThread() // the engine dies with the thread that starts it
	files := pass.Pair()
	engine := exec.Command(os.Args[0], "engine")
	engine.ExtraFiles, engine.SysProcAttr = []*os.File{os.NewFile(uintptr(files[1]), "files")}, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	_, call := start(engine)
	l, address := pass.Socket(path)
	pass.Check(unix.Bind(l, address))
	pass.Check(unix.Listen(l, 1))
	pass.Check(os.Stdout.Close())
	for {
		client, _, err := unix.Accept4(l, unix.SOCK_CLOEXEC)
		pass.Check(err)
		fds := pass.Receive(client)
		pass.Send(files[0], fds...)
		pass.Check(call())
		pass.Send(client)
		for _, fd := range append(fds, client) {
			unix.Close(fd)
		}
	}
}

// runServed runs true in the sandbox of the next init, with descriptors that come over number 3.
func runServed() error {
	fds, control := pass.Receive(3), <-ahead
	pass.Send(control, fds...)
	for _, fd := range fds {
		unix.Close(fd)
	}
	pass.Receive(control)
	unix.Close(control)
	go func() { ahead <- startInit() }()
	return nil
}

func startInit() (control int) {
	ends := pass.Pair()
	cmd := exec.Command(filepath.Join(filepath.Dir(os.Args[0]), "bare"), "init")
	cmd.Stderr, cmd.ExtraFiles = os.Stderr, []*os.File{os.NewFile(uintptr(ends[1]), "control")}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	pass.Check(cmd.Start())
	cmd.ExtraFiles[0].Close()
	go cmd.Wait()
	return ends[0]
}
