package gate

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/internal/egress"
)

// A Proxy is how programs of a sandbox reach names where addresses cannot stand for these: by HTTP
// (CONNECT, and requests for http:// URLs) and by SOCKS 5. There is no nameserver then, and a
// program that does not know the proxy reaches nothing.
type Proxy struct {
	// Listener is the proxy's listener; nil means a free port of the sandbox's own loopback. A
	// process without the password must not be able to reach a listener outside of the sandbox.
	Listener *net.TCPListener
	// Password is what programs must send; empty means none.
	Password string
}

// proxyUser goes with a password, because HTTP requires a user.
const proxyUser = "sbxhost"

// beginProxy starts to accept connections to the proxy.
func (g *Gate) beginProxy(ctx context.Context) error {
	l := g.config.Proxy.Listener
	if l == nil {
		file, err := g.config.Sockets(ctx, TCP4)
		if err != nil {
			return err
		}
		if l, err = listenTCP(file, netip.AddrPortFrom(loopback4, 0), waiting); err != nil {
			return err
		}
	}
	g.proxyAt = l.Addr().(*net.TCPAddr).AddrPort()
	return g.add(&listener{TCPListener: l, at: g.proxyAt, slots: g.out, serve: g.serveProxy})
}

// Environment returns the variables by which programs find the proxy, "name=value"; none without a
// proxy.
func (g *Gate) Environment() []string {
	if g.config.Proxy == nil {
		return nil
	}
	at := g.proxyAt.String()
	if password := g.config.Proxy.Password; password != "" {
		at = proxyUser + ":" + password + "@" + at
	}
	return egress.ProxyVariables(at)
}

// A request is a program's request to the proxy.
type request struct {
	host string // a name, or other text in its place
	port uint16
	// acceptReply is the reply on success; refused makes the reply for a refusal.
	acceptReply []byte
	refused     func(why verdict, text string) []byte
	// first is the request for an http:// URL, whose Host was compared.
	first []byte
}

// An askError ends the conversation after a wrong request.
type askError struct {
	reply []byte
	text  string
}

func (e *askError) Error() string { return e.text }

// serveProxy serves a program's request.
func (g *Gate) serveProxy(c *conn) {
	c.quiet = true // until the connection has a target
	c.inner.SetReadDeadline(time.Now().Add(greetingTimeout))
	in := bufio.NewReader(c.inner)
	asked, err := g.ask(in, c.inner)
	if err != nil {
		var answer *askError
		if errors.As(err, &answer) {
			c.part(answer.reply)
		}
		c.reset()
		return
	}
	c.quiet, c.reply = false, asked.refused
	text, _ := egress.Canonical(asked.host)
	c.decision.Name, c.decision.Port = cmp.Or(text, shown(asked.host)), asked.port
	if address := strings.Trim(asked.host, "[]"); isAddress(address) {
		c.decision.Name = address
		c.refuse(forbidden, "it is an address, and rules are about names")
		return
	}
	ports := g.config.Rules.Ports(text)
	port, ok := portAmong(ports, asked.port)
	if !ok {
		c.refuse(forbidden, g.config.Rules.Refusal(text, asked.port))
		return
	}
	n := g.names.at(text, ports)
	outer, refused := g.reach(c, n, port)
	if refused == nil {
		if _, ok := g.names.settle(n, g.bounds.names); !ok {
			reset(outer)
			refused = &refusal{forbidden, tooManyNames(g.bounds.names)}
		}
	}
	if refused != nil {
		g.names.forget(n)
		c.refuse(refused.why, refused.Error())
		return
	}
	if !c.join(outer) {
		return
	}
	c.reply = nil
	first := asked.first
	if first == nil {
		if _, err := c.inner.Write(asked.acceptReply); err != nil {
			c.refuse(unreachable, err.Error())
			return
		}
		if first, ok = c.readGreeting(in, n.name); !ok {
			return
		}
	}
	c.inner.SetReadDeadline(time.Time{})
	rest, _ := in.Peek(in.Buffered())
	c.pass(outer, append(first, rest...))
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

// part sends a program the reason, and ends. A reset at once could overtake the reason.
func (c *conn) part(text []byte) {
	half, ok := c.inner.(interface{ CloseWrite() error })
	if _, err := c.inner.Write(text); err != nil || !ok {
		return
	}
	half.CloseWrite()
	c.inner.SetReadDeadline(time.Now().Add(partingTime))
	io.Copy(io.Discard, io.LimitReader(c.inner, maxRequest))
}

// partingTime is how long a refused program may go on.
const partingTime = 500 * time.Millisecond

// ask reads a program's request.
func (g *Gate) ask(in *bufio.Reader, out io.Writer) (*request, error) {
	first, err := in.Peek(1)
	if err != nil {
		return nil, err
	}
	if first[0] == socksVersion {
		return askedBySOCKS(in, out, g.config.Proxy.Password)
	}
	h, err := readHead(in)
	if malformed, ok := err.(syntaxError); ok {
		return nil, httpError(malformed.Error())
	} else if err != nil {
		return nil, err
	}
	return h.ask(g.config.Proxy.Password)
}

func httpError(text string) *askError { return &askError{httpReply(malformed, text), text} }

// httpStatus has the answers of HTTP.
var httpStatus = map[verdict]string{
	malformed: "400 Bad Request", nameless: "407 Proxy Authentication Required", forbidden: "403 Forbidden",
	unreachable: "502 Bad Gateway", closed: "502 Bad Gateway",
}

func httpReply(why verdict, text string) []byte {
	body := "sbxhost: " + text + "\n"
	reply := "HTTP/1.1 " + httpStatus[why] + "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\nConnection: close\r\n"
	if why == nameless {
		reply += "Proxy-Authenticate: Basic realm=\"sbxhost\"\r\n"
	}
	return []byte(reply + "\r\n" + body)
}

// ask returns the request to a proxy.
func (h *head) ask(password string) (*request, error) {
	if password != "" && !h.authorized(password) {
		const text = "the proxy's password is missing: it is part of HTTP_PROXY"
		return nil, &askError{httpReply(nameless, text), text}
	}
	if h.method == "CONNECT" {
		host, port, err := hostPort(h.target, 0)
		if err != nil {
			return nil, httpError(err.Error())
		}
		return &request{host: host, port: port, acceptReply: []byte("HTTP/1.1 200 Connection established\r\n\r\n"), refused: refusedByHTTP(host, port)}, nil
	}
	scheme, authority, path, ok := cutURL(h.target)
	switch {
	case !ok:
		return nil, httpError("this is a proxy: it is asked by CONNECT, or for a whole http:// URL")
	case !strings.EqualFold(scheme, "http"):
		return nil, httpError("URLs of " + shown(scheme) + " go by CONNECT")
	case h.version == "HTTP/1.0":
		return nil, httpError("it takes HTTP/1.1")
	}
	// A server may read the Host where a proxy reads the URL.
	_, err := h.name()
	host, port, portErr := hostPort(authority, 80)
	if err = cmp.Or(err, portErr); err != nil {
		return nil, httpError(err.Error())
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return &request{host: host, port: port, refused: refusedByHTTP(host, port), first: h.forwarded(path)}, nil
}

func refusedByHTTP(host string, port uint16) func(verdict, string) []byte {
	if !isAddress(host) {
		host = shown(host)
	}
	at := net.JoinHostPort(host, strconv.Itoa(int(port)))
	return func(why verdict, text string) []byte { return httpReply(why, at+": "+text) }
}

// ofOneHop are the header fields that are for a proxy alone.
var ofOneHop = []string{"connection", "http2-settings", "keep-alive", "proxy-authorization", "proxy-connection", "te", "upgrade"}

// forwarded returns the request for the server. The connection serves one request: the next one may
// be for another server.
func (h *head) forwarded(path string) []byte {
	lines := []string{h.method + " " + path + " " + h.version}
	for _, line := range h.fields() {
		if name, _, _ := strings.Cut(line, ":"); !slices.Contains(ofOneHop, strings.ToLower(name)) {
			lines = append(lines, line)
		}
	}
	return []byte(strings.Join(append(lines, "Connection: close"), "\r\n") + "\r\n\r\n")
}

// authorized judges the first password alone.
func (h *head) authorized(password string) bool {
	for _, line := range h.fields() {
		if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, "proxy-authorization") {
			scheme, given, _ := strings.Cut(strings.TrimSpace(value), " ")
			want := base64.StdEncoding.EncodeToString([]byte(proxyUser + ":" + password))
			return strings.EqualFold(scheme, "Basic") && subtle.ConstantTimeCompare([]byte(strings.TrimSpace(given)), []byte(want)) == 1
		}
	}
	return false
}

// hostPort splits a host and its port. Without a port it returns otherwise, unless that is 0.
func hostPort(text string, otherwise uint16) (host string, port uint16, err error) {
	host, digits, err := net.SplitHostPort(text)
	if err != nil && otherwise != 0 && (!strings.Contains(text, ":") || strings.HasSuffix(text, "]")) {
		return text, otherwise, nil
	}
	number, numeric := strconv.ParseUint(digits, 10, 16)
	if err != nil || numeric != nil || number == 0 || host == "" {
		return "", 0, fmt.Errorf("%s is no name with a port", shown(text))
	}
	return host, uint16(number), nil
}

// SOCKS 5 (RFC 1928), and its passwords (RFC 1929).
const (
	socksVersion  = 5
	socksPassword = 2
	socksConnect  = 1
	socksIPv4     = 1
	socksName     = 3
	socksIPv6     = 4

	socksNoMethod    = 0xff
	socksNoCommand   = 7
	socksNoAddress   = 8
	passwordVersion  = 1
	passwordAccepted = 0
)

// socksStatus has the answers of SOCKS.
var socksStatus = map[verdict]byte{malformed: 1, nameless: 2, forbidden: 2, unreachable: 4, closed: 5}

// socksReply contains no address: the sandbox cannot use that of the connection.
func socksReply(status byte) []byte {
	return []byte{socksVersion, status, 0, socksIPv4, 0, 0, 0, 0, 0, 0}
}

func socksError(text string, reply ...byte) *askError { return &askError{reply, text} }

// take reads this many bytes.
func take(in *bufio.Reader, size byte) ([]byte, error) {
	b := make([]byte, size)
	_, err := io.ReadFull(in, b)
	return b, err
}

// askedBySOCKS handles SOCKS up to the request for a connection.
func askedBySOCKS(in *bufio.Reader, out io.Writer, password string) (*request, error) {
	if err := agreeOnMethod(in, out, password); err != nil {
		return nil, err
	}
	head, err := take(in, 4)
	if err != nil {
		return nil, err
	}
	host, err := socksAddress(in, head[3])
	if err != nil {
		return nil, err
	}
	port, err := take(in, 2)
	if err != nil {
		return nil, err
	}
	if head[0] != socksVersion || head[1] != socksConnect {
		return nil, socksError("it takes connections alone", socksReply(socksNoCommand)...)
	}
	return &request{host: host, port: uint16(port[0])<<8 | uint16(port[1]), acceptReply: socksReply(0),
		refused: func(why verdict, _ string) []byte { return socksReply(socksStatus[why]) }}, nil
}

// agreeOnMethod handles SOCKS authentication: none, or the password.
func agreeOnMethod(in *bufio.Reader, out io.Writer, password string) error {
	head, err := take(in, 2)
	if err != nil {
		return err
	}
	methods, err := take(in, head[1])
	if err != nil {
		return err
	}
	method := byte(0)
	if password != "" {
		method = socksPassword
	}
	if bytes.IndexByte(methods, method) < 0 {
		return socksError("the proxy takes another method", socksVersion, socksNoMethod)
	}
	if _, err := out.Write([]byte{socksVersion, method}); err != nil || password == "" {
		return err
	}
	var given [2][]byte
	for i := range given { // a version, which comes once, and a length
		size, err := take(in, byte(2-i))
		if err != nil {
			return err
		}
		if i == 0 && size[0] != passwordVersion {
			return socksError("it gives its password in another way", passwordVersion, 1)
		}
		if given[i], err = take(in, size[len(size)-1]); err != nil {
			return err
		}
	}
	if subtle.ConstantTimeCompare(given[0], []byte(proxyUser))&subtle.ConstantTimeCompare(given[1], []byte(password)) != 1 {
		return socksError("the password is another", passwordVersion, 1)
	}
	_, err = out.Write([]byte{passwordVersion, passwordAccepted})
	return err
}

// socksAddress reads the address of a requested connection, without its port.
func socksAddress(in *bufio.Reader, kind byte) (string, error) {
	switch kind {
	case socksIPv4, socksIPv6:
		addr, err := take(in, map[byte]byte{socksIPv4: 4, socksIPv6: 16}[kind])
		if err != nil {
			return "", err
		}
		ip, _ := netip.AddrFromSlice(addr)
		return ip.String(), nil
	case socksName:
		size, err := take(in, 1)
		if err != nil {
			return "", err
		}
		name, err := take(in, size[0])
		return string(name), err
	}
	return "", socksError("SOCKS has no such address", socksReply(socksNoAddress)...)
}
