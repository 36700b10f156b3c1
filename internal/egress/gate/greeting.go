package gate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/internal/egress"
)

const (
	maxRequest = 16 << 10 // of HTTP: request line and header
	maxHello   = 32 << 10 // of TLS: twice what the longest key exchanges and tickets take
	maxRecord  = 16 << 10
)

// A greeting is the beginning of a connection that names the server. parse gives the name,
// or how many more bytes it needs at least.
type greeting struct {
	parse func(b []byte) (name string, need int, err error)
	max   int
	// differs is about a name that is not the connection's.
	differs string
}

// greetings are by port. Connections to others are not looked at.
var greetings = map[uint16]*greeting{
	80:  {requestName, maxRequest, "the Host of the HTTP request is %s"},
	443: {helloName, maxHello, "the server name in TLS is %s"},
}

var (
	errNoHTTP  = errors.New("the connection does not begin with an HTTP/1 request")
	errNoTLS   = errors.New("the connection does not begin with TLS")
	errHello   = errors.New("the ClientHello of TLS is malformed")
	errNoSNI   = errors.New("TLS names no server (SNI)")
	errTwoSNI  = errors.New("TLS names several servers (SNI)")
	errNoHost  = errors.New("the HTTP request has no Host")
	errHosts   = errors.New("the HTTP request has several Hosts")
	errRequest = errors.New("the HTTP request is malformed")
	errLong    = errors.New("the connection names no server in its first bytes")
)

// check reads a connection's first bytes and holds them against the name. It gives what it
// has read in any case.
func (g *greeting) check(r io.Reader, want string) (read []byte, err error) {
	name := ""
	for {
		var need int
		if name, need, err = g.parse(read); err != nil {
			return read, err
		} else if need == 0 {
			break
		} else if len(read)+need > g.max {
			return read, errLong
		}
		if cap(read)-len(read) < need {
			read = append(make([]byte, 0, min(max(2048, 2*cap(read), len(read)+need), g.max)), read...)
		}
		n, err := io.ReadAtLeast(r, read[len(read):cap(read)], need)
		read = read[:len(read)+n]
		if err == io.EOF && len(read) > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return read, err
		}
	}
	if canonical, ok := egress.Canonical(name); !ok || canonical != want {
		return read, fmt.Errorf(g.differs, shown(name))
	}
	return read, nil
}

// shown is a name that a command chose, for a message.
func shown(name string) string {
	const most = 256
	if _, ok := egress.Canonical(name); ok {
		return name
	}
	return strconv.Quote(name[:min(len(name), most)])
}

// helloName gives the server name of a ClientHello, which may lie in several records.
func helloName(b []byte) (name string, need int, err error) {
	var hello []byte
	for {
		switch {
		case len(b) == 0:
			return "", 1, nil
		case b[0] != 22 || len(b) > 1 && b[1] != 3: // a handshake, of SSL 3 or later
			return "", 0, errNoTLS
		case len(b) < 5:
			return "", 5 - len(b), nil
		}
		size := int(b[3])<<8 | int(b[4])
		if size == 0 || size > maxRecord {
			return "", 0, errHello
		}
		if len(b) < 5+size {
			return "", 5 + size - len(b), nil
		}
		hello, b = append(hello, b[5:5+size]...), b[5+size:]
		if hello[0] != 1 {
			return "", 0, errNoTLS
		}
		if len(hello) < 4 {
			continue
		}
		size = int(hello[1])<<16 | int(hello[2])<<8 | int(hello[3])
		if size > maxHello {
			return "", 0, errHello
		}
		if len(hello) >= 4+size {
			name, err = serverName(hello[4 : 4+size])
			return name, 0, err
		}
	}
}

// fields takes a TLS message apart. Once something is missing, bad is true and all that
// follows is empty.
type fields struct {
	rest []byte
	bad  bool
}

func (f *fields) take(n int) []byte {
	if n > len(f.rest) {
		f.rest, f.bad = nil, true
		return nil
	}
	b := f.rest[:n]
	f.rest = f.rest[n:]
	return b
}

func (f *fields) number(size int) (n int) {
	for _, c := range f.take(size) {
		n = n<<8 | int(c)
	}
	return n
}

// vector takes what has its length before it, in that many bytes.
func (f *fields) vector(size int) []byte { return f.take(f.number(size)) }

// serverName reads a ClientHello (RFC 8446, 4.1.2; RFC 6066, 3).
func serverName(hello []byte) (name string, err error) {
	f := fields{rest: hello}
	f.take(2 + 32) // version, random
	f.vector(1)    // session
	f.vector(2)    // cipher suites
	f.vector(1)    // compression
	if f.bad {
		return "", errHello
	}
	if len(f.rest) == 0 {
		return "", errNoSNI // a client without extensions
	}
	extensions := fields{rest: f.vector(2)}
	if f.bad || len(f.rest) != 0 {
		return "", errHello
	}
	for found := false; len(extensions.rest) > 0; {
		kind, data := extensions.number(2), fields{rest: extensions.vector(2)}
		if extensions.bad {
			return "", errHello
		}
		if kind != 0 {
			continue
		}
		if found {
			return "", errTwoSNI
		}
		found = true
		list := fields{rest: data.vector(2)}
		if data.bad || len(data.rest) != 0 {
			return "", errHello
		}
		kind, host := list.number(1), list.vector(2)
		switch {
		case list.bad || kind != 0 || len(host) == 0:
			return "", errHello
		case len(list.rest) != 0:
			return "", errTwoSNI
		}
		name = string(host)
	}
	if name == "" {
		return "", errNoSNI
	}
	return name, nil
}

// requestName gives the Host of an HTTP/1 request. A target that names a host as well
// must name the same, since it is the one that counts (RFC 9112, 3.2.2).
func requestName(b []byte) (name string, need int, err error) {
	method := bytes.IndexFunc(b, func(c rune) bool { return c < 'A' || c > 'Z' })
	if method == 0 || method > 0 && b[method] != ' ' || method < 0 && len(b) > 32 {
		return "", 0, errNoHTTP
	}
	var target, host string
	for first := true; ; first = false {
		line, rest, ok := bytes.Cut(b, []byte("\n"))
		if !ok {
			return "", 1, nil
		}
		b = rest
		line = bytes.TrimSuffix(line, []byte("\r"))
		switch {
		case bytes.ContainsAny(line, "\r\x00"):
			err = errRequest
		case first:
			target, err = requestTarget(string(line))
		case len(line) == 0:
			name, err = agreedHost(target, host)
			return name, 0, err
		default:
			host, err = hostField(string(line), host)
		}
		if err != nil {
			return "", 0, err
		}
	}
}

// hostField gives the host after a header field, if it was before that.
func hostField(line, before string) (host string, err error) {
	// Servers read a folded line, and a name with a blank behind it, in different ways.
	key, value, ok := strings.Cut(line, ":")
	switch {
	case !ok || key == "" || strings.ContainsAny(key, " \t"):
		return "", errRequest
	case !strings.EqualFold(key, "Host"):
		return before, nil
	case before != "":
		return "", errHosts
	}
	if host = withoutPort(strings.Trim(value, " \t")); host == "" {
		return "", errNoHost
	}
	return host, nil
}

// agreedHost gives the host of a request whose header has ended.
func agreedHost(target, host string) (string, error) {
	switch {
	case host == "":
		return "", errNoHost
	case target != "" && !strings.EqualFold(target, host):
		return "", fmt.Errorf("the HTTP request is for %s and has the Host %s", shown(target), shown(host))
	}
	return host, nil
}

// requestTarget gives the host that a request line has in it, if it has one.
func requestTarget(line string) (host string, err error) {
	words := strings.Split(line, " ")
	if len(words) != 3 || !strings.HasPrefix(words[2], "HTTP/1.") {
		return "", errNoHTTP
	}
	method, target := words[0], words[1]
	switch {
	case method == "CONNECT":
	case strings.HasPrefix(target, "/") || target == "*":
		return "", nil
	default:
		_, after, ok := strings.Cut(target, "://")
		if !ok {
			return "", errRequest
		}
		target, _, _ = strings.Cut(after, "/")
		target, _, _ = strings.Cut(target, "?")
	}
	if host = withoutPort(target); host == "" {
		return "", errRequest
	}
	return host, nil
}

func withoutPort(host string) string {
	name, port, ok := strings.Cut(host, ":")
	if ok && strings.Trim(port, "0123456789") == "" {
		return name
	}
	return host
}
