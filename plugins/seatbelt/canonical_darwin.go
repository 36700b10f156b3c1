package seatbelt

import (
	"bytes"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// canonical returns the kernel's spelling of an existing path: the case and the form of Unicode in
// which names are stored.
func canonical(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_EVTONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	buf := make([]byte, maxPath+1)
	var pin runtime.Pinner
	pin.Pin(&buf[0])
	defer pin.Unpin()
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETPATH, int(uintptr(unsafe.Pointer(&buf[0])))); err != nil {
		return "", &os.PathError{Op: "fcntl(F_GETPATH)", Path: path, Err: err}
	}
	if end := bytes.IndexByte(buf, 0); end > 0 {
		return string(buf[:end]), nil
	}
	return path, nil
}
