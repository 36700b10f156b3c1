// Package gate is the only way out of a sandbox whose network is a list of names. It enforces the
// rules of package egress.
//
// The sandbox has its own network namespace, in which each address of 198.18.0.0/15 is local. The
// gate works outside of it, with sockets from inside. The gate is the sandbox's nameserver. A name
// that a rule allows gets an address of that range, and the gate listens on that address's ports;
// any other name does not exist, and no question about it leaves the gate. For a connection to such
// an address, the gate makes another connection outside, to an address that the name really has and
// that egress.CheckAddress allowed. It dials only checked addresses, however often a nameserver
// changes its answers.
//
// On port 443 a connection must begin with TLS for that name, and on port 80 with an HTTP request
// for it; the gate then passes on these bytes unchanged. It passes on connections to other ports at
// once, because there the server may speak first.
//
// For hosts with credentials (Injection), the gate is a server of TLS and HTTP in the sandbox and a
// client outside. It replaces the command's placeholder by the credential, in requests that name no
// other host than their connection does.
//
// Where addresses cannot stand for names (Proxy), programs must ask a proxy for a name. The same
// rules hold, the gate checks a name's addresses in the same way, and connections must begin in the
// same way: a program that ignores the proxy reaches nothing.
//
// Not defended: requests to an allowed host. Such a host can pass messages on. A server of several
// names can be asked for another of them inside TLS (domain fronting), in a later request of one
// connection, or by an encrypted ClientHello, which shows only the outer name.
//
// Below port 1024, where no command can listen, one listener serves all names, so ten thousand
// names cost no more than one. It also answers on 127.0.0.1: there the gate accepts a connection
// and then resets it.
package gate
