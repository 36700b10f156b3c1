package gate

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
)

// makeLocal makes each address of an IPv4 prefix local in a socket's network namespace: the
// loopback interface gets an address, and its whole network is then local. A process that may bind
// there may also do this.
func makeLocal(file *os.File, prefix netip.Prefix) error {
	return frame.Control(file, func(fd int) error {
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

// onlyResets passes the resets by which the kernel refuses a connection to an address that stands
// for a name: they have sequence number 0. An established connection has that number once in four
// billion times.
var onlyResets = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 12}, // the source address
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

// filterResets makes a raw socket take only these resets, and count those that do not fit.
func filterResets(of syscall.Conn) error {
	return frame.Control(of, func(fd int) error {
		err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(onlyResets)), Filter: &onlyResets[0]})
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1)
		}
		for err == nil { // packets from before the filter
			_, _, err = unix.Recvfrom(fd, nil, unix.MSG_DONTWAIT)
		}
		if err == unix.EAGAIN {
			err = nil
		}
		return os.NewSyscallError("filtering", err)
	})
}

// readReset reads one reset without a wait: its source address, and how many were lost before it.
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

// acceptWaiting accepts a connection that already waits; it never waits itself.
func acceptWaiting(l *net.TCPListener) (*net.TCPConn, error) {
	fd := -1
	err := frame.Control(l, func(s int) (err error) {
		fd, _, err = unix.Accept4(s, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		return err
	})
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "accepted")
	defer file.Close()
	c, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// info returns the kernel's data about a connection; nil if it is not TCP.
func info(c net.Conn) (info *unix.TCPInfo) {
	if tcp, ok := c.(*net.TCPConn); ok {
		frame.Control(tcp, func(fd int) (err error) {
			info, err = unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
			return err
		})
	}
	return info
}

// wasReset reports whether the other side, or the network, ended a connection with an error.
func wasReset(c net.Conn) bool {
	const closed = 7 // TCP_CLOSE
	i := info(c)
	return i != nil && i.State == closed
}

// delivered returns how many bytes the other side has acknowledged.
func delivered(c net.Conn) uint64 {
	if i := info(c); i != nil {
		return i.Bytes_acked
	}
	return 0
}
