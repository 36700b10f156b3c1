package gate

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
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
	maxRecord  = 18 << 10 // of TLS
)

// A greeting is the beginning of a connection that names the server.
type greeting struct {
	name func(io.Reader) (name string, read []byte, err error)
	// differs is about a name that is not the connection's.
	differs string
}

// greetings are by port. The gate does not look at connections to other ports.
var greetings = map[uint16]*greeting{
	80:  {requestName, "the Host of the HTTP request is %s"},
	443: {helloName, "the server name in TLS is %s"},
}

// A syntaxError says that a connection does not begin as it must.
type syntaxError string

func (e syntaxError) Error() string { return string(e) }

const (
	errNoHTTP  = syntaxError("the connection does not begin with an HTTP/1 request")
	errNoTLS   = syntaxError("the connection does not begin with TLS")
	errHello   = syntaxError("the ClientHello of TLS is malformed, longer than a record, or names several servers (SNI)")
	errNoSNI   = syntaxError("TLS names no server (SNI)")
	errNoHost  = syntaxError("the HTTP request has no Host")
	errHosts   = syntaxError("the HTTP request has several Hosts")
	errRequest = syntaxError("the HTTP request is malformed")
	errProxied = syntaxError("the HTTP request does not begin with a path: it is one for a proxy")
	errLong    = syntaxError("the connection names no server in its first bytes")
)

// check reads a connection's first bytes and compares their name. It always returns the bytes read.
func (g *greeting) check(r io.Reader, want string) (read []byte, err error) {
	name, read, err := g.name(r)
	if err == io.EOF && len(read) > 0 {
		err = io.ErrUnexpectedEOF
	}
	if canonical, ok := egress.Canonical(name); err == nil && (!ok || canonical != want) {
		err = fmt.Errorf(g.differs, shown(name))
	}
	return read, err
}

// shown formats a name that a command chose, for a message.
func shown(name string) string {
	const most = 256
	if _, ok := egress.Canonical(name); ok {
		return name
	}
	return strconv.Quote(name[:min(len(name), most)])
}

// helloName returns the server name of a ClientHello. It refuses one that does not fit into a record,
// which is many times the length of the longest key exchange.
func helloName(r io.Reader) (name string, read []byte, err error) {
	const handshake, headerSize = 22, 5
	header := make([]byte, headerSize)
	if n, err := io.ReadFull(r, header); err != nil {
		return "", header[:n], err
	}
	size := int(binary.BigEndian.Uint16(header[3:]))
	if header[0] != handshake || size > maxRecord {
		return "", header, errNoTLS
	}
	read = append(header, make([]byte, size)...)
	n, err := io.ReadFull(r, read[headerSize:])
	if err == nil {
		name, err = parseHello(read)
	}
	return name, read[:headerSize+n], err
}

// parseHello reads a whole record.
func parseHello(record []byte) (name string, err error) {
	whole := false
	err = tls.Server(receivedConn{bytes.NewReader(record), nil}, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		name, whole = hello.ServerName, true
		return nil, errNoSNI // no handshake follows
	}}).Handshake()
	_, foreign := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case name != "":
		return name, nil
	case whole:
		return "", errNoSNI
	case foreign:
		return "", errNoTLS
	}
	return "", errHello
}

// A receivedConn is a connection with only these received bytes. It drops the server's answer.
type receivedConn struct {
	*bytes.Reader
	net.Conn
}

func (c receivedConn) Read(b []byte) (int, error) { return c.Reader.Read(b) }
func (receivedConn) Write(b []byte) (int, error)  { return len(b), nil }

// A head is an HTTP/1 request up to its body.
type head struct {
	raw                     []byte // all of it, or what was read before an error
	method, target, version string
	host                    string // of the field Host, without a port
}

// readHead reads one. It refuses what servers read in different ways.
func readHead(in *bufio.Reader) (h head, err error) {
	if first, err := in.Peek(1); err != nil {
		return h, err
	} else if first[0] < 'A' || first[0] > 'Z' {
		return h, errNoHTTP
	}
	for begin := 0; ; {
		part, err := in.ReadSlice('\n')
		h.raw = append(h.raw, part...)
		if len(h.raw) > maxRequest {
			return h, errLong
		} else if err == bufio.ErrBufferFull {
			continue
		} else if err != nil {
			return h, err
		}
		line := strings.TrimSuffix(strings.TrimSuffix(string(h.raw[begin:]), "\n"), "\r")
		begin = len(h.raw)
		switch {
		case strings.ContainsAny(line, "\r\x00"):
			err = errRequest
		case h.method == "":
			err = h.setRequest(line)
		case line == "":
			return h, nil
		default:
			err = h.setHost(line)
		}
		if err != nil {
			return h, err
		}
	}
}

// fields returns the lines of the header.
func (h *head) fields() []string {
	lines := strings.Split(strings.ReplaceAll(string(h.raw), "\r\n", "\n"), "\n")
	return lines[1 : len(lines)-2] // without the request and the end
}

func (h *head) setRequest(line string) error {
	words := strings.Split(line, " ")
	if len(words) != 3 || !strings.HasPrefix(words[2], "HTTP/1.") {
		return errNoHTTP
	}
	h.method, h.target, h.version = words[0], words[1], words[2]
	return nil
}

// setHost takes the host out of a field, if that has it.
func (h *head) setHost(field string) error {
	// Servers differ for a folded line, and for a name with a blank after it.
	key, value, ok := strings.Cut(field, ":")
	switch {
	case !ok || key == "" || strings.ContainsAny(key, " \t"):
		return errRequest
	case !strings.EqualFold(key, "Host"):
		return nil
	case h.host != "":
		return errHosts
	}
	if h.host = withoutPort(strings.Trim(value, " \t")); h.host == "" {
		return errNoHost
	}
	return nil
}

// requestName returns the Host of an HTTP/1 request. It refuses a target that names a host as well,
// as only a proxy is asked: that one counts (RFC 9112, 3.2.2).
func requestName(r io.Reader) (name string, read []byte, err error) {
	in := bufio.NewReader(r)
	h, err := readHead(in)
	switch {
	case err != nil:
	case h.host == "":
		err = errNoHost
	case !strings.HasPrefix(h.target, "/") && h.target != "*":
		err = errProxied
	}
	rest, _ := in.Peek(in.Buffered())
	read = append(h.raw, rest...)
	in.Discard(len(rest)) // in may be r itself
	return h.host, read, err
}

// cutURL splits a URL. net/url would accept, and change, more than servers agree on.
func cutURL(url string) (scheme, authority, rest string, ok bool) {
	scheme, authority, ok = strings.Cut(url, "://")
	if i := strings.IndexAny(authority, "/?"); i >= 0 {
		authority, rest = authority[:i], authority[i:]
	}
	return scheme, authority, rest, ok
}

func withoutPort(host string) string {
	name, port, ok := strings.Cut(host, ":")
	if ok && strings.Trim(port, "0123456789") == "" {
		return name
	}
	return host
}
