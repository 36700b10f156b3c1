//go:build unix

package gate

import (
	"context"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
)

// sockaddr converts an address for the kernel.
func sockaddr(at netip.AddrPort) unix.Sockaddr {
	if at.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
}

// bindUDP takes over file, and so does listenTCP.
func bindUDP(file *os.File, at netip.AddrPort) (*net.UDPConn, error) {
	defer file.Close()
	if err := frame.Control(file, func(fd int) error { return os.NewSyscallError("bind", unix.Bind(fd, sockaddr(at))) }); err != nil {
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
	err := frame.Control(file, func(fd int) error {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return err
		}
		// Different listeners can have one port: for all names, for one address, for the loopback.
		// From port 1024 on, a command could add its own listener beside them.
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
		// A listen after a failed bind would take any free port.
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

// connectTCP takes over file.
func connectTCP(ctx context.Context, file *os.File, to netip.AddrPort) (net.Conn, error) {
	defer file.Close()
	err := frame.Control(file, func(fd int) error {
		if err := unix.SetNonblock(fd, true); err != nil {
			return err
		}
		const look = 50 // milliseconds between looks at ctx
		for ctx.Err() == nil {
			err := unix.Connect(fd, sockaddr(to)) // a further call returns the result of the first
			if err != unix.EINPROGRESS && err != unix.EALREADY {
				return os.NewSyscallError("connect", err)
			}
			unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, look)
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	return net.FileConn(file)
}
