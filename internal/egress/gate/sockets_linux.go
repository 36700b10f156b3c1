package gate

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sockaddr is what the kernel takes an address as.
func sockaddr(at netip.AddrPort) unix.Sockaddr {
	if at.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
}

// control calls f with the descriptor of a file or a socket.
func control(of syscall.Conn, f func(fd int) error) error {
	raw, err := of.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// makeLocal has each address of an IPv4 prefix be local in the network namespace of a socket:
// an address of the loopback interface has its whole network be that. Who binds there may set
// it, too.
func makeLocal(file *os.File, prefix netip.Prefix) error {
	return control(file, func(fd int) error {
		for _, set := range [...]struct {
			request uint
			address []byte
		}{{unix.SIOCSIFADDR, prefix.Addr().AsSlice()}, {unix.SIOCSIFNETMASK, net.CIDRMask(prefix.Bits(), 32)}} {
			second, err := unix.NewIfreq("lo:1")
			if err == nil {
				err = second.SetInet4Addr(set.address)
			}
			if err == nil {
				err = unix.IoctlIfreq(fd, set.request, second)
			}
			if err != nil {
				return os.NewSyscallError("making "+prefix.String()+" local", err)
			}
		}
		return nil
	})
}

// bindUDP and listenTCP take over file.
func bindUDP(file *os.File, at netip.AddrPort) (*net.UDPConn, error) {
	defer file.Close()
	if err := control(file, func(fd int) error { return os.NewSyscallError("bind", unix.Bind(fd, sockaddr(at))) }); err != nil {
		return nil, err
	}
	c, err := net.FilePacketConn(file)
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

func listenTCP(file *os.File, at netip.AddrPort, backlog int) (*net.TCPListener, error) {
	defer file.Close()
	err := control(file, func(fd int) error {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return err
		}
		// All names, one address and the loopback can have listeners of their own on one port.
		// From 1024 on a command could then take its place beside them.
		if at.Port() != 0 && at.Port() < unprivileged {
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
				return err
			}
		}
		if at.Addr().Is6() {
			if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
				return err
			}
		}
		// listen after a bind that went wrong would take any free port.
		if err := unix.Bind(fd, sockaddr(at)); err != nil {
			return os.NewSyscallError("bind", err)
		}
		return os.NewSyscallError("listen", unix.Listen(fd, backlog))
	})
	if err != nil {
		return nil, err
	}
	l, err := net.FileListener(file)
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
}

// onlyResets are those by which the kernel refuses a connection to an address that stands for a name: with a
// sequence number of 0, which one of a connection that was made has once in four billion times.
var onlyResets = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 12}, // whom it is from
	{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xfffe0000},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 198<<24 | 18<<16, Jf: 8},
	{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: 6},
	{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: 0x1fff, Jt: 6}, // a later fragment
	{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH},
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_IND, K: 13},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 0x14, Jf: 3}, // RST and ACK
	{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_IND, K: 4},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 128},
	{Code: unix.BPF_RET | unix.BPF_K},
}

// filterResets has a raw socket take those alone, and count what there is no room for.
func filterResets(of syscall.Conn) error {
	return control(of, func(fd int) error {
		err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(onlyResets)), Filter: &onlyResets[0]})
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1)
		}
		for err == nil { // what came before there was a filter
			_, _, err = unix.Recvfrom(fd, nil, unix.MSG_DONTWAIT)
		}
		if err == unix.EAGAIN {
			err = nil
		}
		return os.NewSyscallError("filtering", err)
	})
}

// readReset reads one, and waits for none: whom it is from, and how many were lost up to it.
func readReset(fd int) (from netip.AddrPort, lost uint32, ok bool) {
	var packet [128]byte
	var more [64]byte
	n, size, _, _, err := unix.Recvmsg(fd, packet[:], more[:], unix.MSG_DONTWAIT)
	if err != nil {
		return from, 0, false
	}
	if messages, err := unix.ParseSocketControlMessage(more[:size]); err == nil {
		for _, m := range messages {
			if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_RXQ_OVFL && len(m.Data) >= 4 {
				lost = binary.NativeEndian.Uint32(m.Data)
			}
		}
	}
	if header := int(packet[0]&0xf) * 4; n >= header+2 {
		from = netip.AddrPortFrom(netip.AddrFrom4([4]byte(packet[12:16])), binary.BigEndian.Uint16(packet[header:]))
	}
	return from, lost, true
}

// acceptWaiting accepts what has already been connected, and waits for nothing.
func acceptWaiting(l *net.TCPListener) (*net.TCPConn, error) {
	fd := -1
	err := control(l, func(s int) (err error) {
		fd, _, err = unix.Accept4(s, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		return err
	})
	if err != nil {
		return nil, err
	}
	return fileConn(os.NewFile(uintptr(fd), "accepted"))
}

// fileConn takes over file.
func fileConn(file *os.File) (*net.TCPConn, error) {
	defer file.Close()
	c, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// connectTCP takes over file.
func connectTCP(ctx context.Context, file *os.File, to netip.AddrPort) (net.Conn, error) {
	fd := -1
	err := control(file, func(s int) (err error) {
		fd, err = unix.FcntlInt(uintptr(s), unix.F_DUPFD_CLOEXEC, 0)
		return err
	})
	file.Close()
	if err != nil {
		return nil, err
	}
	// A file that is made of a descriptor that does not block is one that can be waited for.
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	file = os.NewFile(uintptr(fd), "socket")
	defer file.Close()
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { file.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	begun := false
	var connected error
	err = raw.Write(func(fd uintptr) bool {
		if !begun {
			begun = true
			connected = unix.Connect(int(fd), sockaddr(to))
			return connected != unix.EINPROGRESS
		}
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil || code != 0 {
			connected = unix.Errno(code)
			return true
		}
		_, err = unix.Getpeername(int(fd))
		connected = err
		return err == nil // or it was woken for nothing
	})
	if err == nil {
		err = os.NewSyscallError("connect", connected)
	}
	if err != nil {
		return nil, err
	}
	return net.FileConn(file)
}

// gone waits until there is nothing at a connection's other side any more, after its end
// was read. It is false if that ended in order, or if somebody here closed the connection.
func gone(c net.Conn) bool {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	code := 0
	// The kernel wakes who waits when a probe (keepalive) finds nobody.
	err = raw.Read(func(fd uintptr) bool {
		if !wasReset(c) {
			return false
		}
		code, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		return true
	})
	return err == nil && code != 0
}

// info is what the kernel knows of a connection; nil if it is none of TCP's.
func info(c net.Conn) (info *unix.TCPInfo) {
	if tcp, ok := c.(*net.TCPConn); ok {
		control(tcp, func(fd int) (err error) {
			info, err = unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
			return err
		})
	}
	return info
}

// wasReset tells whether the other side, or the network, ended a connection with an error.
func wasReset(c net.Conn) bool {
	const closed = 7 // TCP_CLOSE
	i := info(c)
	return i != nil && i.State == closed
}

// delivered is how many bytes the other side has acknowledged.
func delivered(c net.Conn) uint64 {
	if i := info(c); i != nil {
		return i.Bytes_acked
	}
	return 0
}
