package enginetest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/actor"
)

// listen has the host serve the scene's canary at an address, which is {addr} then.
func listen(network, address string) func(*scene) error {
	return func(s *scene) error {
		s.values["addr"] = s.fill(address)[0]
		l, err := net.Listen(network, s.values["addr"])
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

// listenOutward has the host serve on an address that is not its loopback.
func listenOutward(s *scene) error {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() && ip.IP.To4() != nil && !ip.IP.IsLinkLocalUnicast() {
			return listen("tcp", net.JoinHostPort(ip.IP.String(), "0"))(s)
		}
	}
	return &absentError{"the machine has no address but its loopback"}
}

// onHostNetwork gives the trial the host's network.
func onHostNetwork(_ *scene, t *trial) { t.Spec.Network = shared.Network{Mode: shared.NetworkHost} }

// byName gives the trial a network of a name and, where that can be, a port of the host that
// nobody asks for.
func byName(s *scene, t *trial) {
	t.Spec.Network = shared.Network{Mode: shared.NetworkNames, Names: []string{"listed.example"}}
	if s.suite.info.Features.Has(shared.FeatureNetworkPorts) {
		t.Spec.Network.HostPorts = []uint16{s.port() ^ 1}
	}
}

// port is that of {addr}.
func (s *scene) port() uint16 {
	_, text, _ := strings.Cut(s.values["addr"], ":")
	port, _ := strconv.ParseUint(text, 10, 16)
	return uint16(port)
}

// listenNamed has the host serve at its own {name}, which needs no other machine.
func listenNamed(s *scene) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	if strings.HasPrefix(name, "localhost") || strings.Contains(name, "_") {
		return &absentError{"the machine has no name that a rule can list"}
	}
	addr, err := net.ResolveTCPAddr("tcp4", name+":0")
	if err != nil {
		return &absentError{"the machine's own name has no address: " + err.Error()}
	}
	err = listen("tcp", addr.String())(s)
	s.values["name"] = strings.ToLower(name)
	s.values["addr"] = fmt.Sprintf("%s:%d", s.values["name"], s.port())
	return err
}

// freePort finds a port of the loopback that nobody has, for {addr}.
func freePort(s *scene) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return &absentError{err.Error()}
	}
	s.values["addr"] = l.Addr().String()
	return l.Close()
}

// networkProbes are about who can be spoken to.
func networkProbes() []probe {
	dial := func(network string) words { return words{"dial", network, "{addr}", "{canary}"} }
	toHost := func(id, title, network string, prepare func(*scene) error) probe {
		return probe{id: id, title: title, prepare: prepare, act: dial(network), grant: onHostNetwork, ownNetwork: true}
	}
	named := func(p probe) probe {
		p.trial = byName
		return p
	}
	// onIt is of what even a command with the host's network may not do.
	onIt := func(id, title string, act ...string) probe {
		return probe{id: id, title: title, only: onlyLinux, maybe: true, trial: onHostNetwork, act: act}
	}
	privilegedPorts := onIt("net.24", "privileged ports of the host", "bind-low")
	privilegedPorts.ownNetwork = true
	return []probe{
		toHost("net.01", "the host's loopback", "tcp", listen("tcp", "127.0.0.1:0")),
		toHost("net.02", "the host's loopback (IPv6)", "tcp", listen("tcp", "[::1]:0")),
		toHost("net.03", "the host's own address", "tcp", listenOutward),
		toHost("net.04", "the host's loopback (UDP)", "udp", listenPacket),
		{id: "net.05", title: "a route to anywhere", act: words{"route", "192.0.2.1:53", "[2001:db8::1]:53"}, maybe: true},
		{id: "net.06", title: "interfaces besides a loopback", act: words{"interfaces"}, maybe: true},
		{id: "net.07", title: "the host's resolver", only: onlyLinux, act: words{"resolver"}, maybe: true},
		{id: "net.08", title: "the host's sockets in /proc/net", only: onlyLinux, prepare: listen("unix", "{outside}/s"),
			act: words{"read-canary", "{outside}/s", "/proc/net/unix"}},
		{id: "net.09", title: "an abstract socket of the host", only: onlyLinux, prepare: listen("unix", "@{canary}"), act: dial("unix")},
		{id: "net.10", title: "the same with the host's network", only: onlyLinux, prepare: func(s *scene) error {
			return errors.Join(needScoping(), listen("unix", "@{canary}")(s))
		}, trial: onHostNetwork, act: dial("unix")},
		{id: "net.11", title: "where abstract sockets cannot be kept out, an event says so", only: onlyLinux, works: true, prepare: func(*scene) error {
			if needScoping() == nil {
				return &absentError{"this kernel can scope abstract sockets"}
			}
			return nil
		}, act: words{"nothing"}, trial: func(s *scene, t *trial) {
			onHostNetwork(s, t)
			t.during = func(p shared.Process) {
				for e := range p.Events() {
					s.values["said"] += string(e.Kind)
				}
			}
		}, after: func(s *scene) error {
			if s.values["said"] == "" {
				return errors.New("nothing was said")
			}
			return nil
		}},
		{id: "net.12", title: "a socket that no mount shows", prepare: listen("unix", "{outside}/s"), act: dial("unix"), grant: showing("{outside}", shared.ReadOnly)},
		{id: "net.13", title: "a hidden socket in a read-only mount", prepare: listen("unix", "{shown}/s"), show: words{"{shown}"}, hide: words{"{shown}/s"},
			act: dial("unix"), grant: unhidden},
		{id: "net.14", title: "a hidden socket in the workspace", prepare: listen("unix", "{ws}/s"), hide: words{"{ws}/s"}, act: dial("unix"), grant: unhidden},
		{id: "net.15", title: "a hidden socket by a symlink", prepare: func(s *scene) error {
			return errors.Join(listen("unix", "{ws}/s")(s), linkTo("s", "ws/alias")(s))
		}, hide: words{"{ws}/s"}, act: words{"dial", "unix", "{ws}/alias", "{canary}"}, grant: unhidden},
		{id: "net.16", title: "the engine's own descriptors", only: onlyLinux, act: words{"descriptors"},
			grant: func(_ *scene, t *trial) { t.do("descriptors-opened") }},
		{id: "net.17", title: "sockets among the engine's variables", unmodelled: decidedByEngine,
			act:   words{"variables", "SBXHOST_CHANNEL", "SBXHOST_ENGINE", "PLUGIN_UNIX_SOCKET_DIR", "PLUGIN_PROTOCOL_VERSIONS", "SBXHOST_TOKEN"},
			grant: func(_ *scene, t *trial) { t.setenv("SBXHOST_CHANNEL", "3") }},
		{id: "net.18", title: "a loopback of its own works", works: true, act: words{"own-loopback"}},
		{id: "net.19", title: "sockets within the sandbox work", works: true, act: words{"own-socket", "/tmp/s{unique}"}},
		{id: "net.20", title: "the host's network works where it is granted", works: true, prepare: listen("tcp", "127.0.0.1:0"),
			trial: onHostNetwork, act: dial("tcp"), ownNetwork: true},
		onIt("net.21", "changing the host's interfaces", "interface-up"),
		onIt("net.22", "packet sockets on the host's network", "socket", "packet"),
		onIt("net.23", "raw sockets on the host's network", "socket", "raw"),
		privilegedPorts,
		{id: "net.25", title: "the host's loopback, from a network that is said to be translated", features: []shared.Feature{shared.FeatureNetworkTranslated},
			prepare: listen("tcp", "127.0.0.1:0"), trial: onHostNetwork, act: dial("tcp"), control: controlOutside},
		{id: "net.27", title: "a name that no rule lists, of which an event tells", prepare: listenNamed, trial: func(s *scene, t *trial) {
			byName(s, t)
			t.during = func(p shared.Process) {
				for e := range p.Events() {
					if e.Kind == shared.EventNetwork && e.Details["name"] == s.values["name"] && e.Details["allowed"] == "false" {
						s.values["said"] = e.Message
					}
				}
			}
		}, act: dial("tcp"), grant: func(s *scene, t *trial) {
			t.Spec.Network.Names = append(t.Spec.Network.Names, s.values["addr"]+" private")
		}, after: func(s *scene) error {
			if s.values["said"] == "" {
				return errors.New("no event tells of the name")
			}
			return nil
		}},
		{id: "net.28", title: "a port of the host that host_ports lists works", works: true, prepare: listen("tcp", "127.0.0.1:0"), trial: func(s *scene, t *trial) {
			t.Spec.Network.HostPorts = []uint16{s.port()}
		}, act: dial("tcp")},
		{id: "net.29", title: "a published port works", works: true, prepare: freePort, trial: func(s *scene, t *trial) {
			t.Spec.Network.Publish = []string{strconv.Itoa(int(s.port()))}
			t.during = func(shared.Process) {
				s.until(func() error {
					_, err := actor.Dial([]string{"tcp", s.values["addr"], s.canary})
					return err
				})
			}
		}, act: words{"serve", "{addr}", "{canary}"}},
		named(toHost("net.30", "a port of the host that host_ports does not list", "tcp", listen("tcp", "127.0.0.1:0"))),
		named(toHost("net.31", "the host's own address, with a list of names", "tcp", listenOutward)),
		named(toHost("net.32", "the host's loopback, with a list of names (UDP)", "udp", listenPacket)),
		named(probe{id: "net.33", title: "a route to anywhere, with a list of names", act: words{"route", "192.0.2.1:53", "[2001:db8::1]:53"}, maybe: true}),
	}
}
