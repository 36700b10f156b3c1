package egress

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// String gives the rule as ParseRule reads it.
func (r Rule) String() string {
	var b strings.Builder
	if r.Denies {
		b.WriteByte('!')
	}
	if r.Subdomains {
		b.WriteString("*.")
	}
	b.WriteString(r.Name)
	if !slices.Equal(r.Ports, []uint16{80, 443}) {
		for i, port := range r.Ports {
			b.WriteByte(":,"[min(i, 1)])
			b.WriteString(strconv.Itoa(int(port)))
		}
	}
	if r.Private {
		b.WriteString(" private")
	}
	return b.String()
}

// String gives it as ParsePublish reads it.
func (p Publish) String() string {
	inside := strconv.Itoa(int(p.Inside))
	switch {
	case p.Listen.Addr() != netip.AddrFrom4([4]byte{127, 0, 0, 1}):
		return p.Listen.String() + ":" + inside
	case p.Listen.Port() != p.Inside:
		return strconv.Itoa(int(p.Listen.Port())) + ":" + inside
	}
	return inside
}
