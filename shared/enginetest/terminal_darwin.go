package enginetest

import (
	"bytes"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openTerminal makes a pair.
func openTerminal() (*terminal, error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	var name [128]byte // the size is part of the request's number
	for _, request := range []uintptr{unix.TIOCPTYGRANT, unix.TIOCPTYUNLK, unix.TIOCPTYGNAME} {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(&name))); errno != 0 {
			master.Close()
			return nil, fmt.Errorf("pseudo-terminal: %w", errno)
		}
	}
	path, _, _ := bytes.Cut(name[:], []byte{0})
	slave, err := os.OpenFile(string(path), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		master.Close()
		return nil, err
	}
	return &terminal{master, slave}, nil
}
