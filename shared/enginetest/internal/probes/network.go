package probes

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// listen makes the host serve the scene's canary at an address, which is then {addr}.
func listen(network, address string) preparation {
	return func(s *scene.Scene) {
		s.Values["addr"] = s.Fill(address)[0]
		l, err := net.Listen(network, s.Values["addr"])
		s.Needs(err == nil, "%v", err)
		s.Values["addr"] = l.Addr().String()
		answer := cmp.Or(s.Values["answer"], s.Canary)
		s.Serve(l, func(c net.Conn) {
			io.WriteString(c, answer)
			if half, ok := c.(interface{ CloseWrite() error }); ok {
				half.CloseWrite() // so that nothing which it has sent resets the connection
			}
			io.Copy(io.Discard, c)
		})
	}
}

// listenPacket makes the host answer datagrams.
func listenPacket(s *scene.Scene) {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	s.Needs(err == nil, "%v", err)
	s.Cleanup(func() { c.Close() })
	s.Values["addr"] = c.LocalAddr().String()
	go func() {
		buf := make([]byte, 16)
		for {
			_, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			c.WriteTo([]byte(s.Canary), from)
		}
	}()
}

// outwardAddress is an address of the machine that is not on its loopback.
func outwardAddress() (net.IP, error) {
	addrs, err := net.InterfaceAddrs()
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() && ip.IP.To4() != nil && !ip.IP.IsLinkLocalUnicast() {
			return ip.IP, nil
		}
	}
	return nil, errors.Join(err, errors.New("the machine has no address but its loopback"))
}

// listenOutward makes the host serve at outwardAddress.
func listenOutward(s *scene.Scene) {
	ip, err := outwardAddress()
	s.Needs(err == nil, "%v", err)
	listen("tcp", net.JoinHostPort(ip.String(), "0"))(s)
}

// onHostNetwork gives the trial the host's network.
func onHostNetwork(_ *scene.Scene, t *scene.Trial) {
	t.Spec.Network = shared.Network{Mode: shared.NetworkHost}
}

// byName gives the trial a network of a name and, where that can be, a port of the host that
// nobody asks for.
func byName(s *scene.Scene, t *scene.Trial) {
	t.Spec.Network = shared.Network{Mode: shared.NetworkNames, Names: []string{"listed.example"}}
	if s.Kit.Info.Features.Has(shared.FeatureNetworkPorts) {
		t.Spec.Network.HostPorts = []uint16{port(s) ^ 1}
	}
}

// port is that of {addr}.
func port(s *scene.Scene) uint16 {
	_, text, _ := strings.Cut(s.Values["addr"], ":")
	port, _ := strconv.ParseUint(text, 10, 16)
	return uint16(port)
}

// listenNamed makes the host serve at its own {name}, which needs no other machine.
func listenNamed(s *scene.Scene) {
	name, err := os.Hostname()
	s.Must(err)
	s.Needs(!strings.HasPrefix(name, "localhost") && !strings.Contains(name, "_"), "the machine has no name that a rule can list")
	addr, err := net.ResolveTCPAddr("tcp4", name+":0")
	s.Needs(err == nil, "the machine's own name has no address: %v", err)
	s.Values["name"] = strings.ToLower(name)
	listen("tcp", addr.String())(s)
	s.Values["numeric"] = s.Values["addr"]
	s.Values["addr"] = fmt.Sprintf("%s:%d", s.Values["name"], port(s))
}

// listenWeb is listenNamed with an answer of HTTP.
func listenWeb(s *scene.Scene) {
	s.Values["answer"] = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(s.Canary), s.Canary)
	listenNamed(s)
}

// freePort finds a port of the loopback that nobody has, for {addr}.
func freePort(s *scene.Scene) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.Needs(err == nil, "%v", err)
	s.Values["addr"] = l.Addr().String()
	s.Must(l.Close())
}

// hears waits for the command's events, and keeps one that it looks for.
func hears(wanted func(*scene.Scene, shared.Event) bool) change {
	return func(s *scene.Scene, t *scene.Trial) {
		t.During = func(p shared.Process) {
			for e := range p.Events() {
				if wanted(s, e) {
					s.Values["told"] = e.Message
				} else if eventAbout(s, e, "true") || eventAbout(s, e, "false") {
					delete(s.Values, "told")
				}
			}
		}
	}
}

// needScoping needs Landlock's scopes for abstract sockets.
func needScoping(s *scene.Scene) {
	s.Needs(scopesSockets(), "this kernel cannot keep a command from abstract sockets of its network (Landlock ABI 6)")
}

// eventAbout says whether an event is about {name}.
func eventAbout(s *scene.Scene, e shared.Event, allowed string) bool {
	return e.Kind == shared.EventNetwork && e.Details["name"] == s.Values["name"] && e.Details["allowed"] == allowed
}

// refusal says whether an event is about {name}, which was refused.
func refusal(s *scene.Scene, e shared.Event) bool {
	return eventAbout(s, e, "false") && e.Details["reason"] != ""
}

// rule adds a rule of names.
func rule(text string) change {
	return func(s *scene.Scene, t *scene.Trial) {
		t.Spec.Network.Names = append(t.Spec.Network.Names, s.Fill(text)...)
	}
}

// eventArrived returns an error unless hears has found the event.
func eventArrived(s *scene.Scene) error {
	if s.Values["told"] == "" {
		return errors.New("no event tells of it")
	}
	return nil
}

// networkProbes are about peers that a command can reach.
func networkProbes() []Probe {
	const dialTCP, dialUnix, anywhere = "dial tcp {addr} {canary}", "dial unix {addr} {canary}", "route 192.0.2.1:53 [2001:db8::1]:53"
	listed := rule("{addr} private")
	named, onLoopback := changes(byName, listed), listen("tcp", "127.0.0.1:0")
	toHost := func(id, title, network string, prepare preparation, trial change) Probe {
		return Probe{ID: id, Title: title, prepare: prepare, trial: trial, act: "dial " + network + " {addr} {canary}", grant: onHostNetwork, ownNetwork: true}
	}
	// refused is a probe of a name that the rules of the trial do not list, of which an event tells.
	refused := func(id, title string, prepare preparation, trial change) Probe {
		return Probe{ID: id, Title: title + ", of which an event tells", prepare: prepare, trial: changes(byName, trial, hears(refusal)), act: dialTCP, grant: named, after: eventArrived}
	}
	const sent = "a text that is longer than what is received"
	return []Probe{
		toHost("net.01", "the host's loopback", "tcp", onLoopback, nil),
		toHost("net.02", "the host's loopback (IPv6)", "tcp", listen("tcp", "[::1]:0"), nil),
		toHost("net.03", "the host's own address", "tcp", listenOutward, nil),
		toHost("net.04", "the host's loopback (UDP)", "udp", listenPacket, nil),
		maybe("net.05", "a route to anywhere", anywhere),
		maybe("net.06", "interfaces besides a loopback", "interfaces"),
		linux("net.07", "the host's resolver", "resolver"),
		{ID: "net.08", Title: "the host's sockets in /proc/net", Only: OnlyLinux, prepare: listen("unix", "{outside}/s"),
			act: "read-canary {outside}/s /proc/net/unix"},
		{ID: "net.09", Title: "an abstract socket of the host", Only: OnlyLinux, prepare: listen("unix", "@{canary}"), act: dialUnix},
		{ID: "net.10", Title: "the same with the host's network", Only: OnlyLinux,
			prepare: all(needScoping, listen("unix", "@{canary}")), trial: onHostNetwork, act: dialUnix},
		{ID: "net.11", Title: "where abstract sockets cannot be kept out, an event says so", Only: OnlyLinux, Works: true, prepare: func(s *scene.Scene) {
			s.Needs(!scopesSockets(), "this kernel can scope abstract sockets")
		}, act: "nothing", trial: changes(onHostNetwork, hears(func(*scene.Scene, shared.Event) bool { return true })), after: eventArrived},
		{ID: "net.12", Title: "a socket that no mount shows", prepare: listen("unix", "{outside}/s"), act: dialUnix, grant: showing("{outside}", shared.ReadOnly)},
		{ID: "net.13", Title: "a hidden socket in a read-only mount", prepare: listen("unix", "{shown}/s"), show: "{shown}", hide: "{shown}/s",
			act: dialUnix},
		{ID: "net.14", Title: "a hidden socket in the workspace", prepare: listen("unix", "{ws}/s"), hide: "{ws}/s", act: dialUnix},
		{ID: "net.15", Title: "a hidden socket by a symlink",
			prepare: all(linkTo("s", "ws/alias"), listen("unix", "{ws}/s")), hide: "{ws}/s", act: "dial unix {ws}/alias {canary}"},
		{ID: "net.16", Title: "the engine's own descriptors", Only: OnlyLinux, act: "descriptors", grant: does("do openat -100 {kit} 0 then descriptors")},
		{ID: "net.17", Title: "sockets among the engine's variables", Unmodelled: decidedByEngine,
			act:   "variables SBXHOST_CHANNEL SBXHOST_ENGINE PLUGIN_UNIX_SOCKET_DIR PLUGIN_PROTOCOL_VERSIONS SBXHOST_TOKEN",
			grant: func(_ *scene.Scene, t *scene.Trial) { t.Setenv("SBXHOST_CHANNEL", "3") }},
		{ID: "net.18", Title: "a loopback of its own works", Works: true, act: "own-server tcp 127.0.0.1:0"},
		{ID: "net.19", Title: "sockets within the sandbox work", Works: true, act: "own-server unix /tmp/s{unique}"},
		{ID: "net.20", Title: "the host's network works where it is granted", Works: true, prepare: onLoopback,
			trial: onHostNetwork, act: dialTCP, ownNetwork: true},
		// Even a command with the host's network may not do this.
		linux("net.21", "changing the host's interfaces", "do socket 2 2 0 then do ioctl $result 0x8914 lo"+strings.Repeat(`\x00`, 14)+`I\x00`, onHostNetwork), // lo is up, as it was
		linux("net.22", "packet sockets on the host's network", "do socket 17 3 0", onHostNetwork),
		linux("net.23", "raw sockets on the host's network", "do socket 2 3 1 or do socket 10 3 58", onHostNetwork),
		{ID: "net.24", Title: "privileged ports of the host", Only: OnlyLinux, Maybe: true, trial: onHostNetwork, ownNetwork: true,
			act: "listen 127.0.0.1:1 127.0.0.1:7 127.0.0.1:9 127.0.0.1:19"},
		{ID: "net.25", Title: "the host's loopback, from a network that is said to be translated", Features: shared.Features{shared.FeatureNetworkTranslated},
			prepare: onLoopback, trial: onHostNetwork, act: dialTCP},
		refused("net.27", "a name that no rule lists", listenNamed, nil),
		refused("net.36", "a name that one rule lists and another denies", listenNamed, changes(listed, rule("!{name}"))),
		{ID: "net.34", Title: "a name that a rule lists works, and an event tells of it", Works: true, prepare: listenNamed, trial: func(s *scene.Scene, t *scene.Trial) {
			t.Act = append(t.Act, sent)
			begin, told := time.Now(), 0
			changes(named, hears(func(s *scene.Scene, e shared.Event) bool {
				if eventAbout(s, e, "true") {
					told++
				}
				want := map[string]string{"port": strconv.Itoa(int(port(s))), "received": strconv.Itoa(len(s.Canary)), "sent": strconv.Itoa(len(sent)), "connections": "1"}
				for key, value := range want {
					if e.Details[key] != value {
						return false
					}
				}
				duration, _ := strconv.ParseInt(e.Details["duration_ns"], 10, 64)
				return eventAbout(s, e, "true") && told == 1 && e.Details["address"] != "" && 0 < duration && duration < int64(time.Since(begin))
			}))(s, t)
		}, act: dialTCP, after: eventArrived},
		{ID: "net.28", Title: "a port of the host that host_ports lists works", Works: true, prepare: onLoopback, trial: func(s *scene.Scene, t *scene.Trial) {
			t.Spec.Network.HostPorts = []uint16{port(s) ^ 1, port(s)} // not the first alone
		}, act: dialTCP},
		{ID: "net.29", Title: "a published port works", Works: true, prepare: func(s *scene.Scene) {
			freePort(s)
			s.Values["other"] = strconv.Itoa(int(port(s)))
			freePort(s)
		}, trial: func(s *scene.Scene, t *scene.Trial) {
			t.Spec.Network.Publish = []string{s.Values["other"], fmt.Sprintf("127.0.0.1:%d:%d", port(s), port(s)^1)}
			t.During = func(shared.Process) {
				s.Until(func() error {
					c, err := actor.Connect("tcp", s.Values["addr"])
					if err != nil {
						return err
					}
					defer c.Close()
					if _, err = actor.ReadUntil(c, s.Canary); err != nil {
						return err
					}
					if at, err := outwardAddress(); err == nil { // while who answers still waits for the client's end
						if other, err := actor.Connect("tcp", fmt.Sprintf("%s:%d", at, port(s))); err == nil {
							other.Close()
							s.End(scene.Leaked, "it is published at %s, too", at)
						}
					}
					return nil
				})
			}
			t.Do("serve", fmt.Sprintf("127.0.0.1:%d", port(s)^1), s.Canary)
		}},
		{ID: "net.37", Title: "a port that no rule lists of a name that one does", prepare: listenNamed, trial: func(s *scene.Scene, t *scene.Trial) {
			changes(byName, rule(fmt.Sprintf("{name}:%d private", port(s)^1)))(s, t)
		}, act: dialTCP, grant: listed},
		refused("net.38", "a private address of a name whose rule has none", listenNamed, rule("{addr}")),
		refused("net.39", "a name that ends like one that a rule lists", func(s *scene.Scene) {
			listenNamed(s)
			s.Values["end"] = s.Values["addr"][1:]
			s.Needs(!strings.ContainsAny(s.Values["end"][:1], "-.:"), "no rule can list the end of the machine's name")
		}, rule("{end} private")),
		{ID: "net.40", Title: "a name that a rule lists works by the proxy of each variable", Works: true, Unmodelled: decidedByProxy, Features: shared.Features{shared.FeatureNetworkProxy},
			prepare: listenNamed, trial: named,
			act: "dial HTTP_PROXY {addr} {canary} then dial HTTPS_PROXY {addr} {canary} then dial ALL_PROXY {addr} {canary}"},
		{ID: "net.41", Title: "a name that no rule lists, and its address, by each proxy", Unmodelled: decidedByProxy, Features: shared.Features{shared.FeatureNetworkProxy},
			prepare: listenWeb, trial: byName, act: "by-any-proxy {canary} {addr} {numeric}", grant: listed},
		toHost("net.30", "a port of the host that host_ports does not list", "tcp", onLoopback, byName),
		toHost("net.31", "the host's own address, with a list of names", "tcp", listenOutward, byName),
		toHost("net.32", "the host's loopback, with a list of names (UDP)", "udp", listenPacket, byName),
		maybe("net.33", "a route to anywhere, with a list of names", anywhere, byName),
	}
}
