//go:build linux

// Bare is what the program floor needs for each served command: with the word client and the path of
// a socket, the client; with the word init, the init, which makes its sandbox before it receives the
// descriptors of true. Neither links gRPC.
package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/test/bench/floor/pass"
)

func main() {
	if os.Args[1] == "init" {
		runInit()
	} else {
		s, address := pass.Socket(os.Args[2])
		pass.Check(unix.Connect(s, address))
		pass.Send(s, 0, 1, 2)
		pass.Receive(s)
	}
}

// runInit is pid 1 of its namespaces. Its control socket is descriptor 3.
func runInit() {
	runtime.LockOSThread()
	makeSandbox()
	var files []uintptr
	for _, fd := range pass.Receive(3) {
		files = append(files, uintptr(fd))
	}
	pid := pass.Must(syscall.ForkExec("/usr/bin/true", []string{"true"}, &syscall.ProcAttr{Files: files}))
	pass.Must(syscall.Wait4(pid, nil, 0, nil))
	pass.Send(3)
}

// makeSandbox makes 35 mounts, three of them overlays with new layers.
func makeSandbox() {
	mount := func(source, dest, kind string, flags uintptr, data string) {
		pass.Check(unix.Mount(source, dest, kind, flags, data))
	}
	mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, "")
	const root = "/tmp"
	mount("root", root, "tmpfs", 0, "")
	dir := func(name string) string {
		pass.Check(os.MkdirAll(root+name, 0o755))
		return root + name
	}
	for _, name := range []string{"/usr", "/lib", "/lib64"} {
		if _, err := os.Stat(name); err == nil {
			mount(name, dir(name), "", unix.MS_BIND|unix.MS_REC, "")
		}
	}
	for i := range 25 { // devices, and what is hidden or protected
		mount("/usr", dir(fmt.Sprint("/held/", i)), "", unix.MS_BIND, "")
	}
	mount("layers", dir("/layers"), "tmpfs", 0, "")
	for i := range 3 { // the toolchains
		upper, work := dir(fmt.Sprint("/layers/upper", i)), dir(fmt.Sprint("/layers/work", i))
		mount("overlay", dir(fmt.Sprint("/tools/", i)), "overlay", 0, "userxattr,lowerdir=/usr/share,upperdir="+upper+",workdir="+work)
	}
	mount("tmp", dir("/tmp"), "tmpfs", 0, "")
	mount("proc", dir("/proc"), "proc", 0, "")
	pass.Check(unix.Chdir(root))
	pass.Check(unix.PivotRoot(".", "."))
	pass.Check(unix.Unmount(".", unix.MNT_DETACH))
	pass.Check(unix.Chdir("/"))
}
