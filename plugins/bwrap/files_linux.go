package bwrap

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/engine/mountplan"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// openRegular opens a file to copy. If it has become a fifo meanwhile, the engine must not block.
func openRegular(name string) (*os.File, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, hostpath.OpenError(name, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return nil, errors.Join(fmt.Errorf("%q is not a regular file any more", name), err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// mounts are the mounts that the init checks. bubblewrap mounts by path, and follows symlinks
// before 0.12: another command could lead a mount away, or have it show something else.
func mounts(ops []holder.Op) (list []sandboxinit.Mount, err error) {
	for _, o := range ops {
		if !o.FromSpec {
			continue
		}
		m := sandboxinit.Mount{Path: o.Dest}
		switch o.Kind {
		case holder.ReadOnlyBind, holder.Bind, holder.Pin:
			info, err := mountplan.Lstat(o.Source)
			if err != nil {
				return nil, err
			}
			source := info.Sys().(*syscall.Stat_t)
			m.Dev, m.Ino = source.Dev, source.Ino
		case holder.Memory, holder.MountPoints, holder.HideFile, holder.HideDirectory:
		default:
			continue
		}
		list = append(list, m)
	}
	return list, nil
}
