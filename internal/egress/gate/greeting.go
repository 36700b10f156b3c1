package gate

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/internal/egress"
)

const (
	maxRequest = 16 << 10 // of HTTP: request line and header
	maxHello   = 32 << 10 // of TLS: twice the longest key exchanges and tickets
)

// A greeting is the beginning of a connection that names the server. parse returns the name, or the
// least number of bytes that it still needs.
type greeting struct {
	parse func(b []byte) (name string, need int, err error)
	// more reports whether b can say more than its first bytes did, which have been parsed. Nil: it can.
	more func(b []byte, parsed int) bool
	max  int
	// differs is about a name that is not the connection's.
	differs string
}

// greetings are by port. The gate does not look at connections to other ports.
var greetings = map[uint16]*greeting{
	80:  {requestName, moreOfRequest, maxRequest, "the Host of the HTTP request is %s"},
	443: {helloName, nil, maxHello, "the server name in TLS is %s"},
}

var (
	errNoHTTP  = errors.New("the connection does not begin with an HTTP/1 request")
	errNoTLS   = errors.New("the connection does not begin with TLS")
	errHello   = errors.New("the ClientHello of TLS is malformed, or names several servers (SNI)")
	errNoSNI   = errors.New("TLS names no server (SNI)")
	errNoHost  = errors.New("the HTTP request has no Host")
	errHosts   = errors.New("the HTTP request has several Hosts")
	errRequest = errors.New("the HTTP request is malformed")
	errLong    = errors.New("the connection names no server in its first bytes")
)

// check reads a connection's first bytes and compares their name. It always returns the bytes read.
func (g *greeting) check(r io.Reader, want string) (read []byte, err error) {
	name, need := "", 1
	for parsed := 0; ; {
		if parsed == 0 || g.more == nil || g.more(read, parsed) {
			name, need, err = g.parse(read)
			parsed = len(read)
		}
		if err != nil {
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

// shown formats a name that a command chose, for a message.
func shown(name string) string {
	const most = 256
	if _, ok := egress.Canonical(name); ok {
		return name
	}
	return strconv.Quote(name[:min(len(name), most)])
}

// helloName returns the server name of a ClientHello, which may span several records.
func helloName(b []byte) (name string, need int, err error) {
	whole := false
	err = tls.Server(sent{bytes.NewReader(b), nil}, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		name, whole = hello.ServerName, true
		return nil, errNoSNI // no handshake follows
	}}).Handshake()
	_, foreign := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case name != "":
		return name, 0, nil
	case whole:
		return "", 0, errNoSNI
	case foreign:
		return "", 0, errNoTLS
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return "", 0, errHello
	}
	for { // it ends within a record, or before the next one
		size := recordHeader
		if len(b) >= size {
			size += int(b[3])<<8 | int(b[4])
		}
		if len(b) < size {
			return "", size - len(b), nil
		}
		b = b[size:]
	}
}

const recordHeader = 5

// sent is a connection with only these received bytes. It drops the server's answer.
type sent struct {
	*bytes.Reader
	net.Conn
}

func (s sent) Read(b []byte) (int, error) { return s.Reader.Read(b) }
func (sent) Write(b []byte) (int, error)  { return len(b), nil }

// longestMethod bounds that of an HTTP request, so that what is none is known by its first bytes.
const longestMethod = 32

// moreOfRequest is true where the method, the request line or the header has ended since: a client can send one
// byte at a time.
func moreOfRequest(b []byte, parsed int) bool {
	since := b[max(0, parsed-2):]
	return parsed <= longestMethod || bytes.IndexByte(b, '\n') >= parsed || bytes.Contains(since, []byte("\n\n")) || bytes.Contains(since, []byte("\n\r\n"))
}

// requestName gives the Host of an HTTP/1 request. A target that names a host as well
// must name the same, since it is the one that counts (RFC 9112, 3.2.2).
func requestName(b []byte) (name string, need int, err error) {
	method := bytes.IndexFunc(b, func(c rune) bool { return c < 'A' || c > 'Z' })
	if method == 0 || method > 0 && b[method] != ' ' || method < 0 && len(b) > longestMethod {
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

// hostField returns the host after a header field, if its host before the field was before.
func hostField(line, before string) (host string, err error) {
	// Servers differ for a folded line, and for a name with a blank after it.
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

// agreedHost returns the host of a request after its header has ended.
func agreedHost(target, host string) (string, error) {
	switch {
	case host == "":
		return "", errNoHost
	case target != "" && !strings.EqualFold(target, host):
		return "", fmt.Errorf("the HTTP request is for %s and has the Host %s", shown(target), shown(host))
	}
	return host, nil
}

// requestTarget returns the host in a request line, if it has one.
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
