package gate

import (
	"bufio"
	"bytes"
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
	// first is what the server gets first. For an http:// URL it is the request, and named says
	// that its Host was compared.
	first  []byte
	byName bool
}

// A verdict is why a proxy does not serve a request.
type verdict int

const (
	malformed   verdict = iota // the request is malformed
	nameless                   // the password is missing
	forbidden                  // no rule allows it
	unreachable                // there is no such name, or nothing answers
	closed                     // the server refuses the connection
)

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
	in := bufio.NewReaderSize(c.inner, maxRequest)
	asked, err := g.ask(in, c.inner)
	if err != nil {
		var answer *askError
		if errors.As(err, &answer) {
			c.part(answer.reply)
		}
		c.reset()
		return
	}
	c.quiet = false
	c.decision.Name, c.decision.Port = shown(asked.host), asked.port
	refuse := func(reason string) { c.unserved(false, reason, asked.refused(forbidden, reason)) }
	if _, err := netip.ParseAddr(strings.Trim(asked.host, "[]")); err == nil {
		c.decision.Name = strings.Trim(asked.host, "[]")
		refuse("it is an address, and rules are about names")
		return
	}
	text, _ := egress.Canonical(asked.host)
	ports := g.config.Rules.Ports(text)
	if len(ports) == 0 {
		refuse(g.config.Rules.Refusal(text, asked.port))
		return
	}
	c.decision.Name = text
	port, ok := portAmong(ports, asked.port)
	if !ok {
		refuse(g.config.Rules.Refusal(text, asked.port))
		return
	}
	n := g.names.at(text, ports)
	outer, failed := g.reach(c, n, port)
	if failed == nil {
		if _, ok := g.names.settle(n, g.bounds.names); !ok {
			reset(outer)
			failed = &unreached{forbidden, tooManyNames(g.bounds.names)}
		}
	}
	if failed != nil {
		g.names.forget(n)
		c.missed(failed, asked.refused(failed.why, failed.err.Error()))
		return
	}
	if !c.join(outer) {
		return
	}
	first := asked.first
	if !asked.byName {
		if _, err := c.inner.Write(asked.acceptReply); err != nil {
			c.failed(err)
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
	head, err := requestHead(in)
	if err != nil {
		return nil, err
	}
	return askedByHTTP(head, g.config.Proxy.Password)
}

// requestHead reads an HTTP request up to its body.
func requestHead(in *bufio.Reader) (head []byte, err error) {
	for {
		line, err := in.ReadSlice('\n')
		head = append(head, line...)
		switch {
		case err == bufio.ErrBufferFull, len(head) > maxRequest:
			return nil, httpError(malformed, "the request's header is too long")
		case err != nil:
			return nil, err
		case len(head) > len(line) && (string(line) == "\n" || string(line) == "\r\n"):
			return head, nil
		}
	}
}

func httpError(why verdict, text string) *askError { return &askError{httpReply(why, text), text} }

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

// askedByHTTP parses a request to a proxy, with its whole header.
func askedByHTTP(head []byte, password string) (*request, error) {
	lines := strings.Split(strings.ReplaceAll(string(head), "\r\n", "\n"), "\n")
	words := strings.Split(lines[0], " ")
	if len(words) != 3 || !strings.HasPrefix(words[2], "HTTP/1.") {
		return nil, httpError(malformed, "this is a proxy for HTTP/1 and SOCKS 5")
	}
	if password != "" && !authorized(lines[1:], password) {
		return nil, httpError(nameless, "the proxy's password is missing: it is part of HTTP_PROXY")
	}
	method, target := words[0], words[1]
	if method == "CONNECT" {
		host, port, err := hostPort(target, 0)
		if err != nil {
			return nil, httpError(malformed, err.Error())
		}
		return &request{host: host, port: port, acceptReply: []byte("HTTP/1.1 200 Connection established\r\n\r\n"), refused: refusedByHTTP(host, port)}, nil
	}
	scheme, rest, ok := strings.Cut(target, "://")
	switch {
	case !ok:
		return nil, httpError(malformed, "this is a proxy: it is asked by CONNECT, or for a whole http:// URL")
	case !strings.EqualFold(scheme, "http"):
		return nil, httpError(malformed, "URLs of "+shown(scheme)+" go by CONNECT")
	case words[2] == "HTTP/1.0":
		return nil, httpError(malformed, "it takes HTTP/1.1")
	}
	// A server may read the Host where a proxy reads the URL.
	if _, need, err := requestName(head); err != nil || need != 0 {
		if err == nil {
			err = errRequest
		}
		return nil, httpError(malformed, err.Error())
	}
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	host, port, err := hostPort(authority, 80)
	if err != nil {
		return nil, httpError(malformed, err.Error())
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return &request{host: host, port: port, refused: refusedByHTTP(host, port), byName: true,
		first: []byte(method + " " + path + " " + words[2] + "\r\n" + forwarded(lines[1:]))}, nil
}

func refusedByHTTP(host string, port uint16) func(verdict, string) []byte {
	return func(why verdict, text string) []byte {
		at := shown(host)
		if _, err := netip.ParseAddr(host); err == nil {
			at = host
		}
		return httpReply(why, net.JoinHostPort(at, strconv.Itoa(int(port)))+": "+text)
	}
}

// ofOneHop are the header fields that are for a proxy alone.
var ofOneHop = []string{"connection", "http2-settings", "keep-alive", "proxy-authorization", "proxy-connection", "te", "upgrade"}

// forwarded returns the header for the server. The connection serves one request: the next one may
// be for another server.
func forwarded(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		if line != "" && !isField(line, ofOneHop...) {
			b.WriteString(line + "\r\n")
		}
	}
	return b.String() + "Connection: close\r\n\r\n"
}

func isField(line string, names ...string) bool {
	key, _, _ := strings.Cut(line, ":")
	return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(key, name) })
}

func authorized(lines []string, password string) bool {
	for _, line := range lines {
		if !isField(line, "proxy-authorization") {
			continue
		}
		_, value, _ := strings.Cut(line, ":")
		scheme, given, _ := strings.Cut(strings.TrimSpace(value), " ")
		want := base64.StdEncoding.EncodeToString([]byte(proxyUser + ":" + password))
		return strings.EqualFold(scheme, "Basic") && subtle.ConstantTimeCompare([]byte(strings.TrimSpace(given)), []byte(want)) == 1
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
