package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
)

// A special range, from the registries of IANA for IPv4 and IPv6.
type special struct {
	prefix string
	is     string // "10.0.0.1 is ..."
	// private means that the word private after a rule allows the range.
	private bool
}

// If several ranges contain an address, the first one counts.
var specials = []special{
	// Services that give a machine's credentials, or its start-up data, to every client.
	{"169.254.169.254/32", metadata, false},
	{"169.254.170.0/24", metadata, false},   // Amazon's containers
	{"169.254.0.23/32", metadata, false},    // Tencent
	{"168.63.129.16/32", metadata, false},   // Azure, a public address
	{"100.100.100.200/32", metadata, false}, // Alibaba
	{"192.0.0.192/32", metadata, false},     // Oracle
	{"fd00:ec2::/32", metadata, false},      // Amazon
	{"fd20:ce::254/128", metadata, false},   // Google
	{"fe80::a9fe:a9fe/128", metadata, false},

	{"0.0.0.0/8", "unspecified, which means this machine or network", false},
	{"10.0.0.0/8", rfc1918, true},
	{"100.64.0.0/10", "shared by the customers of a provider (CGNAT, RFC 6598)", true},
	{"127.0.0.0/8", "loopback", true},
	{"169.254.0.0/16", "link-local (RFC 3927)", true},
	{"172.16.0.0/12", rfc1918, true},
	{"192.0.0.0/24", protocols, true},
	{"192.0.2.0/24", documentation, true},
	{"192.31.196.0/24", as112, true},
	{"192.52.193.0/24", "for multicast tunnels (RFC 7450)", true},
	{"192.88.99.0/24", "a relay of 6to4 (RFC 7526)", true},
	{"192.168.0.0/16", rfc1918, true},
	{"192.175.48.0/24", as112, true},
	{"198.18.0.0/15", "of the range that stands for names inside of sandboxes (198.18.0.0/15, RFC 2544)", false},
	{"198.51.100.0/24", documentation, true},
	{"203.0.113.0/24", documentation, true},
	{"224.0.0.0/4", "multicast", false},
	{"240.0.0.0/4", "reserved, or broadcast (RFC 1112)", false},

	// Those outside of 2000::/3 that the word private allows. CheckAddress refuses the rest of them.
	{"::1/128", "loopback", true},
	{"2001::/32", "tunnelled to IPv4 (Teredo, RFC 4380)", false},
	{"2001:2::/48", "for benchmarks (RFC 5180)", false},
	{"2001::/23", protocols, true},
	{"2001:db8::/32", documentation, true},
	{"2002::/16", "tunnelled to IPv4 (6to4, RFC 3056)", false},
	{"2620:4f:8000::/48", as112, true},
	{"3fff::/20", documentation, true},
	{"fc00::/7", "private (ULA, RFC 4193)", true},
	{"fe80::/10", "link-local (RFC 4291)", true},
	{"fec0::/10", "site-local (RFC 3879)", true},
}

const (
	metadata      = "a metadata service of a cloud, which gives out credentials"
	rfc1918       = "private (RFC 1918)"
	protocols     = "of the range for protocols (RFC 6890)"
	documentation = "for documentation"
	as112         = "for names of private networks (AS112, RFC 7535)"
)

// ranges returns the prefixes of specials.
var ranges = sync.OnceValue(func() (list []netip.Prefix) {
	for _, s := range specials {
		list = append(list, netip.MustParsePrefix(s.prefix))
	}
	return list
})

// FakeRange has the addresses that stand for names inside sandboxes.
const FakeRange = "198.18.0.0/15"

// Fake reports whether an address is in 198.18.0.0/15, the range that stands for names inside
// sandboxes. No name on the network has such an address, unless another program uses the range in
// the same way.
func Fake(addr netip.Addr) bool { return fake.Contains(addr.Unmap()) }

var fake = netip.MustParsePrefix(FakeRange)

// CheckAddress says why a name must not lead to an address; nil if it may. own are the machine's
// own addresses.
//
// With private, a name may lead to loopback, to the machine's own addresses, to private, link-local
// and shared networks, and to the ranges for documentation and for protocols. CheckAddress always
// refuses metadata services, which give out a machine's credentials; addresses that are not a
// single host (unspecified, broadcast, multicast, discarded, reserved); 198.18.0.0/15, which stands
// for names inside sandboxes; and tunnels that hide an IPv4 address. If an address has a plain IPv4
// address in it (mapped, NAT64, ISATAP), CheckAddress judges that one.
func CheckAddress(addr netip.Addr, private bool, own []netip.Prefix) error {
	if !addr.IsValid() {
		return errors.New("there is no address")
	}
	if addr.Zone() != "" {
		return fmt.Errorf("%s is of one link alone", addr)
	}
	addr = addr.Unmap()
	if inner, ok := embedded(addr); ok {
		if err := CheckAddress(inner, private, own); err != nil {
			return fmt.Errorf("%s leads to an IPv4 address: %w", addr, err)
		}
	}
	for i, prefix := range ranges() {
		if prefix.Contains(addr) {
			if s := specials[i]; !s.private || !private {
				return fmt.Errorf("%s is %s", addr, s.is)
			}
			return nil
		}
	}
	if addr.Is6() && addr.As16()[0]>>5 != 1 && !nat64.Contains(addr) {
		return fmt.Errorf("%s is not of the range of public addresses (2000::/3)", addr)
	}
	if !private {
		for _, prefix := range own {
			if prefix.Contains(addr) {
				return fmt.Errorf("%s is an address of this machine", addr)
			}
		}
	}
	return nil
}

var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// embedded returns the IPv4 address to which the network's router translates an IPv6 address.
func embedded(addr netip.Addr) (netip.Addr, bool) {
	if addr.Is4() {
		return netip.Addr{}, false
	}
	b := addr.As16()
	// ISATAP (RFC 5214) has 0000:5efe or 0200:5efe before it, under any prefix.
	isatap := b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
	if !isatap && !nat64.Contains(addr) {
		return netip.Addr{}, false
	}
	return netip.AddrFrom4([4]byte(b[12:])), true
}
