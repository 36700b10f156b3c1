// Package gate is the one way out of a sandbox whose network is a list of names. It
// carries out the rules of package egress.
//
// The sandbox has a network namespace of its own in which each address of 198.18.0.0/15
// is local. The gate works outside of it, with sockets from inside. It is the sandbox's
// nameserver: a name that a rule allows gets an address of that range, on whose ports the
// gate then listens; any other name does not exist, and the question goes no further. A
// connection to such an address is made again outside, to an address that the name really
// has and that egress.CheckAddress allowed: the gate dials addresses that were checked and
// nothing else, however often a nameserver changes its mind.
//
// On port 443 a connection must begin with TLS for that name, and on port 80 with an HTTP
// request for it; what has been read is passed on as it is. Connections to other ports are
// passed on at once, since there the server may be the first to speak.
//
// To hosts for which it has credentials (Injection), the gate is a server of TLS and HTTP in the
// sandbox and a client outside. It puts the credential in the place of what the command has for
// it, in requests that name no other host than their connection does.
//
// Where addresses cannot stand for names (Proxy), programs have to ask for a name as they ask
// a proxy. The same rules hold, a name's addresses are checked in the same way, and what goes
// through must begin alike: a program that ignores the proxy reaches nothing.
//
// Not defended: what an allowed host is asked to do. It can pass messages on, and a
// server that serves several names can be asked for another of them inside of TLS
// (domain fronting), in a later request of one connection, or by an encrypted ClientHello,
// of which only the outer name is seen.
//
// Below port 1024, where no command can listen, one listener serves all names, so that ten
// thousand names cost no more than one. It answers on 127.0.0.1, too, where connections
// are accepted and then reset.
package gate
