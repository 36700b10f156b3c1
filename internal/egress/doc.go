// Package egress says which names on the network a command may reach, and which
// addresses those names may have. It is pure: it asks nobody, neither a resolver nor the
// machine.
//
// A rule is a name with its ports; a list of rules allows what one of them allows and none
// denies, and an empty list nothing. Addresses are no rules: who has a public address today has another
// tomorrow, and the names are what the greetings of TLS and HTTP repeat.
//
//	registry.npmjs.org               ports 80 and 443
//	*.github.com                     each name below github.com at any depth, not github.com itself
//	db.example.com:5432              that port alone
//	*.example.com:443,8443           these ports
//	!admin.example.com               not that name, at any port, whatever else the list allows
//	!*.example.com:22                not that port of each name below
//	db.internal:5432 private         may also have an address of a private network or of this machine
//
// CheckAddress is the other half. A name that is allowed must not lead to what only this
// machine reaches: otherwise whoever runs the name's nameserver chooses a service of the
// private network, and it answers. The word "private" after a rule says that the owner of
// the list trusts what the name leads to. Addresses that serve credentials to a machine of
// a cloud stay refused.
//
// A network that translates IPv6 to IPv4 under a prefix of its own (RFC 6052) is not
// recognised: only the well-known prefixes are.
package egress
