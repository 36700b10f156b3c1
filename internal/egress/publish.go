package egress

import (
	"errors"
	"net/netip"
	"strings"
)

// A Publish shows a port of the sandbox on an address of the host.
type Publish struct {
	// Listen is where the host listens. Port 0 means any free port.
	Listen netip.AddrPort
	// Inside is the port on the sandbox's loopback.
	Inside uint16
}

// ParsePublish reads "3000", which means 127.0.0.1:3000 for port 3000 inside; "8080:3000" with
// another port inside; and "0.0.0.0:8080:3000" or "[::1]:8080:3000" with the listen address. Without an
// address, the host listens on its loopback, which other machines cannot reach.
func ParsePublish(text string) (p Publish, err error) {
	defer naming(text, &err)
	rest, inside := "", text
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		rest, inside = text[:i], text[i+1:]
	}
	if p.Inside, err = parsePort(inside); err != nil {
		return p, err
	}
	if p.Inside == 0 {
		return p, errors.New("has port 0 inside, where nothing can listen: write the port that the command listens on")
	}
	addr, port := netip.AddrFrom4([4]byte{127, 0, 0, 1}), p.Inside
	if rest != "" || len(inside) != len(text) {
		listen := rest[strings.LastIndexByte(rest, ':')+1:]
		if port, err = parsePort(listen); err != nil {
			return p, err
		}
		if len(listen) != len(rest) {
			at, err := netip.ParseAddrPort(rest)
			if addr = at.Addr(); err != nil || addr.Zone() != "" || addr.Is4In6() {
				return p, errNoAddress
			}
		}
	}
	p.Listen = netip.AddrPortFrom(addr, port)
	return p, nil
}

var errNoAddress = errors.New(`names no address to listen on: write "127.0.0.1:8080:3000", "[::1]:8080:3000" or, for other machines, "0.0.0.0:8080:3000"`)
