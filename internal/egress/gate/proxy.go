package gate

import (
	"bufio"
	"cmp"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/egress"
)

// A Proxy is how programs of a sandbox reach names where addresses cannot stand for these: by HTTP
// (CONNECT, and requests for http:// URLs). There is no nameserver then, and a program that does not
// know the proxy reaches nothing.
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
func (g *Gate) beginProxy() error {
	l := g.config.Proxy.Listener
	if l == nil {
		file, err := g.config.Sockets(unix.AF_INET, unix.SOCK_STREAM)
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
	// first is the request for an http:// URL, whose Host was compared; nil for CONNECT.
	first []byte
}

const established = "HTTP/1.1 200 Connection established\r\n\r\n"

// serveProxy serves a program's request.
func (g *Gate) serveProxy(c *conn) {
	c.quiet = true // until the connection has a target
	c.inner.SetReadDeadline(time.Now().Add(greetingTimeout))
	in := bufio.NewReader(c.inner)
	asked, err := readRequest(in, g.config.Proxy.Password)
	if err != nil {
		if refused, ok := errors.AsType[*refusal](err); ok {
			c.part(httpReply(refused.status, refused.Error()))
		}
		c.reset()
		return
	}
	c.quiet, c.asked = false, true
	text, _ := egress.Canonical(asked.host)
	c.decision.Name, c.decision.Port = cmp.Or(text, shown(asked.host)), asked.port
	ports := g.config.Rules.Ports(text)
	port, ok := portAmong(ports, asked.port)
	if !ok {
		c.refuse(forbidden, g.config.Rules.Refusal(text, asked.port))
		return
	}
	n, err := g.names.at(text, ports, g.bounds.names)
	if err != nil {
		c.refuse(forbidden, err.Error())
		return
	}
	outer, ok := g.reach(c, n, port)
	if !ok {
		return
	}
	c.asked = false
	first := asked.first
	if first == nil {
		if _, err := io.WriteString(c.inner, established); err != nil {
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

// part sends a program the reason, and waits for a moment: a reset at once could overtake the reason.
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

// readRequest reads a program's request. A refusal ends the conversation.
func readRequest(in *bufio.Reader, password string) (*request, error) {
	h, err := readHead(in)
	if _, ok := err.(syntaxError); err != nil && !ok {
		return nil, err
	}
	var asked *request
	switch {
	case err != nil:
	case password != "" && !h.authorized(password):
		return nil, &refusal{http.StatusProxyAuthRequired, errors.New("the proxy's password is missing: it is part of HTTP_PROXY")}
	default:
		asked, err = h.ask()
	}
	if err != nil {
		return nil, &refusal{http.StatusBadRequest, err}
	}
	return asked, nil
}

func httpReply(status int, text string) []byte {
	body := "sbxhost: " + text + "\n"
	reply := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n", status, http.StatusText(status), len(body))
	if status == http.StatusProxyAuthRequired {
		reply += "Proxy-Authenticate: Basic realm=\"sbxhost\"\r\n"
	}
	return []byte(reply + "\r\n" + body)
}

// ask returns the request to a proxy. All of its errors are about what the program asks for.
func (h *head) ask() (*request, error) {
	if h.method == "CONNECT" {
		host, port, err := hostPort(h.target, 0)
		return &request{host: host, port: port}, err
	}
	scheme, authority, path, ok := cutURL(h.target)
	switch {
	case !ok:
		return nil, errors.New("this is a proxy: it is asked by CONNECT, or for a whole http:// URL")
	case !strings.EqualFold(scheme, "http"):
		return nil, fmt.Errorf("URLs of %s go by CONNECT", shown(scheme))
	case h.version == "HTTP/1.0":
		return nil, errors.New("it takes HTTP/1.1")
	}
	host, port, err := hostPort(authority, 80)
	// A server may read the Host where a proxy reads the URL.
	if named := withoutPort(authority); err == nil && !strings.EqualFold(named, h.host) {
		err = fmt.Errorf("the HTTP request is for %s and has the Host %s", shown(named), shown(h.host))
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return &request{host: host, port: port, first: h.forwarded(path)}, err
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

// authorized reports whether the first password in the header is the right one.
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
	if err != nil && otherwise != 0 && text != "" && (!strings.Contains(text, ":") || strings.HasSuffix(text, "]")) {
		return text, otherwise, nil
	}
	number, numeric := strconv.ParseUint(digits, 10, 16)
	if err != nil || numeric != nil || number == 0 || host == "" {
		return "", 0, fmt.Errorf("%s is no name with a port", shown(text))
	}
	return host, uint16(number), nil
}
