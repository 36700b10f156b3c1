//go:build linux

package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/sbxhost/sbxhost/test/bench/floor/pass"
)

// A served command takes at least this: its client, in the program bare, passes three descriptors to
// the server, the server to the engine, with a call of gRPC, and the engine to an init with seven new
// namespaces that has made its sandbox already. Nobody looks at anything, and nothing is reported.

var calls = grpc.StreamDesc{StreamName: "Run", ServerStreams: true, ClientStreams: true, Handler: handle}

// ahead is the control socket of the next init.
var ahead = make(chan int, 1)

// serveClients serves the clients at a socket, one after the other, and closes its standard output
// when it can.
func serveClients(path string) {
	runtime.LockOSThread() // the engine dies with the thread that starts it
	files := pass.Pair()
	engine := exec.Command(os.Args[0], "engine", path+".engine")
	engine.Stderr, engine.ExtraFiles = os.Stderr, []*os.File{os.NewFile(uintptr(files[1]), "files")}
	engine.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	pass.Check(engine.Start())
	conn := pass.Must(grpc.NewClient("unix:"+path+".engine", grpc.WithTransportCredentials(insecure.NewCredentials())))
	l, address := pass.Socket(path)
	pass.Check(unix.Bind(l, address))
	pass.Check(unix.Listen(l, 1))
	pass.Check(os.Stdout.Close())
	for {
		client, _, err := unix.Accept4(l, unix.SOCK_CLOEXEC)
		pass.Check(err)
		fds := pass.Receive(client)
		pass.Send(files[0], fds...)
		call := pass.Must(conn.NewStream(context.Background(), &calls, "/floor.Served/Run", grpc.WaitForReady(true)))
		pass.Check(call.SendMsg(new(emptypb.Empty)))
		for range 2 { // it has started; it has ended
			pass.Check(call.RecvMsg(new(emptypb.Empty)))
		}
		pass.Send(client)
		for _, fd := range append(fds, client) {
			unix.Close(fd)
		}
	}
}

// serveEngine is the engine. The descriptors come over number 3.
func serveEngine(path string) {
	syscall.CloseOnExec(3)
	s := grpc.NewServer()
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "floor.Served", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{calls}}, nil)
	ahead <- startInit()
	pass.Check(s.Serve(pass.Must(net.Listen("unix", path))))
}

func handle(_ any, call grpc.ServerStream) error {
	pass.Check(call.RecvMsg(new(emptypb.Empty)))
	fds, control := pass.Receive(3), <-ahead
	pass.Send(control, fds...)
	for _, fd := range fds {
		unix.Close(fd)
	}
	pass.Check(call.SendMsg(new(emptypb.Empty)))
	pass.Receive(control)
	unix.Close(control)
	go func() { ahead <- startInit() }()
	return call.SendMsg(new(emptypb.Empty))
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
