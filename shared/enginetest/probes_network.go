package enginetest

import (
	"errors"
	"net"
	"os"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// listen has the host serve the scene's canary; its address is value "addr".
func listen(network string, address func(*scene) (string, error)) func(*scene) error {
	return func(s *scene) error {
		where, err := address(s)
		if err != nil {
			return err
		}
		s.values["addr"] = where
		l, err := net.Listen(network, where)
		if err != nil {
			return &absentError{err.Error()}
		}
		s.cleanup(func() { l.Close() })
		s.values["addr"] = l.Addr().String()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Write([]byte(s.canary))
				c.Close()
			}
		}()
		return nil
	}
}

func address(a string) func(*scene) (string, error) {
	return func(*scene) (string, error) { return a, nil }
}

// listenPacket has the host answer datagrams.
func listenPacket(s *scene) error {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return &absentError{err.Error()}
	}
	s.cleanup(func() { c.Close() })
	s.values["addr"] = c.LocalAddr().String()
	go func() {
		buf := make([]byte, 16)
		for {
			_, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			c.WriteTo([]byte(s.canary), from)
		}
	}()
	return nil
}

// ownAddress is an address of the host that is not its loopback.
func ownAddress(*scene) (string, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() && ip.IP.To4() != nil && !ip.IP.IsLinkLocalUnicast() {
			return net.JoinHostPort(ip.IP.String(), "0"), nil
		}
	}
	return "", &absentError{"the machine has no address but its loopback"}
}

func dial(network string) func(*scene, *trial) {
	return func(s *scene, t *trial) { t.do("dial", network, s.values["addr"], s.canary) }
}

// onHostNetwork gives the trial the host's network.
func onHostNetwork(then func(*scene, *trial)) func(*scene, *trial) {
	return func(s *scene, t *trial) {
		t.Spec.Network.Mode = shared.NetworkHost
		then(s, t)
	}
}

func hostNetwork(_ *scene, t *trial) { t.Spec.Network.Mode = shared.NetworkHost }

// networkProbes are about who can be spoken to.
func networkProbes() []probe {
	inDir := func(dir string) func(*scene) (string, error) {
		return func(s *scene) (string, error) { return s.path(dir, "s"), nil }
	}
	abstract := func(s *scene) (string, error) { return "@" + s.canary, nil }
	return []probe{
		{id: "net.01", title: "the host's loopback", prepare: listen("tcp", address("127.0.0.1:0")), trial: dial("tcp"),
			control: controlGranted, grant: hostNetwork, ownNetwork: true},
		{id: "net.02", title: "the host's loopback (IPv6)", prepare: listen("tcp", address("[::1]:0")), trial: dial("tcp"),
			control: controlGranted, grant: hostNetwork, ownNetwork: true},
		{id: "net.03", title: "the host's own address", prepare: listen("tcp", ownAddress), trial: dial("tcp"),
			control: controlGranted, grant: hostNetwork, ownNetwork: true},
		{id: "net.04", title: "the host's loopback (UDP)", prepare: listenPacket, trial: dial("udp"),
			control: controlGranted, grant: hostNetwork, ownNetwork: true},
		{id: "net.05", title: "a route to anywhere", trial: doing("route", "192.0.2.1:53", "[2001:db8::1]:53"), maybe: true},
		{id: "net.06", title: "interfaces besides a loopback", trial: doing("interfaces"), maybe: true},
		{id: "net.07", title: "the host's resolver", only: onlyLinux, trial: doing("resolver"), maybe: true},
		{id: "net.08", title: "the host's sockets in /proc/net", only: onlyLinux, prepare: listen("unix", inDir("outside")),
			trial: func(s *scene, t *trial) { t.do("read-canary", s.path("outside/s"), "/proc/net/unix") }},
		{id: "net.09", title: "an abstract socket of the host", only: onlyLinux, prepare: listen("unix", abstract), trial: dial("unix")},
		{id: "net.10", title: "the same with the host's network", only: onlyLinux, prepare: func(s *scene) error {
			return errors.Join(needScoping(), listen("unix", abstract)(s))
		}, trial: onHostNetwork(dial("unix"))},
		{id: "net.11", title: "where abstract sockets cannot be kept out, an event says so", only: onlyLinux, works: true, prepare: func(*scene) error {
			if needScoping() == nil {
				return &absentError{"this kernel can scope abstract sockets"}
			}
			return nil
		}, trial: onHostNetwork(doing("nothing")), after: func(_ *scene, o *outcome) error {
			for _, e := range o.events {
				if e.Kind == shared.EventDegraded {
					return nil
				}
			}
			return errors.New("nothing was said")
		}},
		{id: "net.12", title: "a socket that no mount shows", prepare: listen("unix", inDir("outside")), trial: dial("unix"),
			control: controlGranted, grant: func(s *scene, t *trial) { t.show(s.outside, shared.ReadOnly) }},
		{id: "net.13", title: "a hidden socket in a read-only mount", prepare: listen("unix", inDir("shown")), trial: func(s *scene, t *trial) {
			t.show(s.shown, shared.ReadOnly)
			t.hide(s.path("shown/s"))
			dial("unix")(s, t)
		}, control: controlGranted, grant: unhidden},
		{id: "net.14", title: "a hidden socket in the workspace", prepare: listen("unix", inDir("ws")), trial: func(s *scene, t *trial) {
			t.hide(s.path("ws/s"))
			dial("unix")(s, t)
		}, control: controlGranted, grant: unhidden},
		{id: "net.15", title: "a hidden socket by a symlink", prepare: func(s *scene) error {
			return errors.Join(listen("unix", inDir("ws"))(s), os.Symlink("s", s.path("ws/alias")))
		}, trial: func(s *scene, t *trial) {
			t.hide(s.path("ws/s"))
			t.do("dial", "unix", s.path("ws/alias"), s.canary)
		}, control: controlGranted, grant: unhidden},
		{id: "net.16", title: "the engine's own descriptors", only: onlyLinux, trial: doing("descriptors"),
			control: controlGranted, grant: func(_ *scene, t *trial) { t.do("descriptors-opened") }},
		{id: "net.17", title: "sockets among the engine's variables", unmodelled: decidedByEngine, trial: func(_ *scene, t *trial) {
			t.do("variables", "SBXHOST_CHANNEL", "SBXHOST_ENGINE", "PLUGIN_UNIX_SOCKET_DIR", "PLUGIN_PROTOCOL_VERSIONS", "SBXHOST_TOKEN")
		}, control: controlGranted, grant: func(_ *scene, t *trial) { t.setenv("SBXHOST_CHANNEL", "3") }},
		{id: "net.18", title: "a loopback of its own works", works: true, trial: doing("own-loopback")},
		{id: "net.19", title: "sockets within the sandbox work", works: true, trial: func(s *scene, t *trial) { t.do("own-socket", "/tmp/s"+s.suite.random+s.p.id) }},
		{id: "net.20", title: "the host's network works where it is granted", works: true, prepare: listen("tcp", address("127.0.0.1:0")),
			trial: onHostNetwork(dial("tcp")), ownNetwork: true},
		{id: "net.21", title: "changing the host's interfaces", only: onlyLinux, maybe: true, trial: onHostNetwork(doing("interface-up")), control: controlOutside},
		{id: "net.22", title: "packet sockets on the host's network", only: onlyLinux, maybe: true, trial: onHostNetwork(doing("socket", "packet")), control: controlOutside},
		{id: "net.23", title: "raw sockets on the host's network", only: onlyLinux, maybe: true, trial: onHostNetwork(doing("socket", "raw")), control: controlOutside},
		{id: "net.24", title: "privileged ports of the host", only: onlyLinux, maybe: true, trial: onHostNetwork(doing("bind-low")), control: controlOutside, ownNetwork: true},
	}
}

// netPatience bounds an action's wait for an answer.
const netPatience = 10 * time.Second
