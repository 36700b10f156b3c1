package facts

import (
	"encoding/binary"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/view"
)

// A boundSocket is the kernel's record of a socket with a file.
type boundSocket struct {
	name  string // as its server wrote it: may be relative, to an unknown directory
	inode uint32 // of the file; the low bits of a longer number
	dev   uint64 // of its file system
}

// boundSockets returns the socket files in some directories, or in the whole host, that sockets of
// this network namespace use. all says that the directories have no others. A server chooses the
// name, and a command may have moved its directories since, so each file must have the right inode.
// A socket is left out if its name leads elsewhere now, and not through the directories: its server has
// removed the file, as engines do after a connection.
func (f *lookup) boundSockets(dirs []string, host bool) (files []string, all bool) {
	list, err := unixSockets()
	if err != nil {
		return nil, false
	}
	table, err := f.mounts()
	if err != nil {
		return nil, false
	}
	// The file systems that show in the directories, and where.
	seen := mountsIn(table, dirs...)
	files, all = []string{}, true
	for _, s := range list {
		if host && filepath.IsAbs(s.name) && filepath.Clean(s.name) == s.name {
			files = append(files, s.name)
		}
		if !slices.ContainsFunc(seen, func(m mount) bool { return m.dev == s.dev }) {
			continue
		}
		way := f.Follow(filepath.Join("/", s.name))
		var st unix.Stat_t
		is := way.Kind == view.Socket && unix.Lstat(way.End, &st) == nil && uint32(st.Ino) == s.inode
		switch {
		case is && way.Names == 1:
		case is, !filepath.IsAbs(s.name), paths.Inside("/proc", s.name), f.leadsThrough(s.name, dirs):
			all = false
			continue
		default: // nothing, or another file, is there now; the server has removed its own
			continue
		}
		at := mountOf(table, way.End).in(way.End)
		for _, m := range seen {
			if m.dev == s.dev && paths.Inside(m.root, at) {
				files = append(files, paths.Move(at, m.root, m.at))
			}
		}
	}
	return files, all
}

// through reports whether a path leads through some directories, as far as it exists.
func (f *lookup) leadsThrough(p string, dirs []string) bool {
	for at := range paths.Up(p) {
		if way := f.Follow(at); way.Err == nil {
			return paths.InsideAny(dirs, way.End) || slices.ContainsFunc(way.Links, func(link string) bool { return paths.InsideAny(dirs, link) })
		}
	}
	return true
}

// unixSockets reads the kernel's list of sockets of this network namespace that have a file.
func unixSockets() (list []boundSocket, err error) {
	const showName, showFile, attributeName, attributeFile, header = 1, 2, 0, 1, 16
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	defer unix.Close(s)
	le := binary.NativeEndian
	ask := make([]byte, unix.SizeofNlMsghdr+24) // struct nlmsghdr, struct unix_diag_req
	le.PutUint32(ask, uint32(len(ask)))
	le.PutUint16(ask[4:], unix.SOCK_DIAG_BY_FAMILY)
	le.PutUint16(ask[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	body := ask[unix.SizeofNlMsghdr:]
	body[0] = unix.AF_UNIX
	le.PutUint32(body[4:], 1<<32-1) // in all states
	le.PutUint32(body[12:], showName|showFile)
	if err := unix.Sendto(s, ask, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	for buf := make([]byte, 8<<10); ; { // the kernel never sends more at once than that
		n, _, flags, from, err := unix.Recvmsg(s, buf, nil, 0)
		if err == unix.EINTR {
			continue
		}
		if sender, ok := from.(*unix.SockaddrNetlink); err == nil && (!ok || sender.Pid != 0 || n == 0 || flags&unix.MSG_TRUNC != 0) {
			err = unix.EPROTO
		}
		if err != nil {
			return nil, err
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil {
			return nil, err
		}
		for _, message := range messages {
			switch {
			case message.Header.Type == unix.NLMSG_DONE:
				return list, nil
			case message.Header.Type != unix.SOCK_DIAG_BY_FAMILY || len(message.Data) < header: // such as that this kernel has no such list
				return nil, unix.EPROTO
			}
			var one boundSocket
			file := false
			for a := message.Data[header:]; len(a) >= 4; {
				size := int(le.Uint16(a))
				if size < 4 || size > len(a) {
					return nil, unix.EPROTO
				}
				switch value := a[4:size]; {
				case le.Uint16(a[2:]) == attributeName:
					one.name = unix.ByteSliceToString(value) // "" for one in no directory
				case le.Uint16(a[2:]) == attributeFile && len(value) >= 8:
					dev := le.Uint32(value[4:]) // twelve bits of major number, twenty of minor
					file, one.inode, one.dev = true, le.Uint32(value), unix.Mkdev(dev>>20, dev&(1<<20-1))
				}
				a = a[min(len(a), (size+3)&^3):]
			}
			if file {
				list = append(list, one)
			}
		}
	}
}
