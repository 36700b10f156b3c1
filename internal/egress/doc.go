// Package egress says which names on the network a command may reach, and which
// addresses those names may have. It is pure: it asks neither a resolver nor the
// machine.
//
// A rule is a name with its ports. A list of rules allows a connection if one rule allows it
// and none denies it; an empty list allows nothing. Addresses cannot be rules: a public address
// can belong to somebody else tomorrow, and the greetings of TLS and HTTP repeat the name.
//
//	registry.npmjs.org               ports 80 and 443
//	*.github.com                     each name below github.com at any depth, not github.com itself
//	db.example.com:5432              that port alone
//	*.example.com:443,8443           these ports
//	!admin.example.com               not that name, at any port, whatever else the list allows
//	!*.example.com:22                not that port of each name below
//	db.internal:5432 private         may also have an address of a private network or of this machine
//
// CheckAddress is the other half. An allowed name must not lead to an address that only this
// machine reaches: otherwise the owner of the name's nameserver chooses a service of the private
// network, and it answers. The word "private" after a rule says that the owner of the list trusts
// the name's addresses. Addresses that give credentials to a machine of a cloud stay refused.
//
// Only the well-known prefixes that translate IPv6 to IPv4 are recognized, not a network's own
// (RFC 6052).
package egress
