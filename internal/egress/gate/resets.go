package gate

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// resets are the packets by which the sandbox's kernel refuses connections without a listener. By
// them, the gate reports a command's failed attempts.
type resets struct {
	gate    *Gate
	packets net.PacketConn // nil if the gate does not see them
	raw     syscall.RawConn

	mu   sync.Mutex
	lost uint32
}

// maxResets is how many resets the gate reads at once: a command can make any number.
const maxResets = 1024

func (g *Gate) watchResets() error {
	file, err := g.config.Sockets(unix.AF_INET, unix.SOCK_RAW)
	if err != nil {
		return err
	}
	packets, err := net.FilePacketConn(file)
	file.Close()
	if err != nil {
		return err
	}
	raw, err := packets.(syscall.Conn).SyscallConn()
	if err == nil {
		err = filterResets(packets.(syscall.Conn))
	}
	if err != nil {
		packets.Close()
		return err
	}
	r := &g.resets
	r.gate, r.packets, r.raw = g, packets, raw
	g.wg.Go(func() {
		defer context.AfterFunc(g.closing, func() { packets.SetReadDeadline(time.Unix(1, 0)) })()
		r.raw.Read(func(fd uintptr) bool {
			r.take(int(fd))
			return false
		})
	})
	return nil
}

// read reads the waiting resets. A reset that a command has received already waits here.
func (r *resets) read() {
	if r.packets != nil {
		r.raw.Control(func(fd uintptr) { r.take(int(fd)) })
	}
}

func (r *resets) take(fd int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range maxResets {
		from, lost, ok := readReset(fd)
		if !ok {
			return
		}
		if missed := lost - r.lost; missed > 0 {
			r.lost = lost
			r.gate.missed(uint64(missed))
		}
		r.gate.reportUnheard(from)
	}
}

func (r *resets) close() {
	if r.packets != nil {
		r.read()
		r.packets.Close()
	}
}

// reportUnheard is about a connection without a listener.
func (g *Gate) reportUnheard(to netip.AddrPort) {
	n, port, d := g.target(to)
	if n == nil && to.Addr() == nameserver().Addr() {
		return // some programs ask it by TCP after UDP
	}
	if d.Reason == "" {
		d.Allowed, d.Reason = true, "the gate does not listen for it"
		if _, err := g.addresses(n, port); err != nil {
			d.Allowed, d.Reason = false, err.Error()
		}
	}
	g.decided(d)
}
