package gate

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

// hello is the ClientHello that Go sends for a name.
func hello(t testing.TB, name string) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go tls.Client(client, &tls.Config{ServerName: name, InsecureSkipVerify: true}).HandshakeContext(ctx)
	head := make([]byte, 5)
	if _, err := io.ReadFull(server, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(server, body); err != nil {
		t.Fatal(err)
	}
	return append(head, body...)
}

// records cuts a record into many.
func records(b []byte, size int) (out []byte) {
	head := b[:3]
	for b = b[5:]; len(b) > 0; {
		n := min(size, len(b))
		out = append(append(out, head...), byte(n>>8), byte(n))
		out = append(out, b[:n]...)
		b = b[n:]
	}
	return out
}

// withExtensions is a ClientHello with these bytes as its extensions.
func withExtensions(extensions []byte) []byte {
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0, 0, 2, 0x13, 1, 1, 0)
	if extensions != nil {
		body = append(body, byte(len(extensions)>>8), byte(len(extensions)))
		body = append(body, extensions...)
	}
	message := append([]byte{1, 0, byte(len(body) >> 8), byte(len(body))}, body...)
	return append([]byte{22, 3, 1, byte(len(message) >> 8), byte(len(message))}, message...)
}

// named is the extension with server names.
func named(names ...string) (b []byte) {
	for _, name := range names {
		b = append(append(b, 0, byte(len(name)>>8), byte(len(name))), name...)
	}
	b = append([]byte{byte(len(b) >> 8), byte(len(b))}, b...)
	return append([]byte{0, 0, byte(len(b) >> 8), byte(len(b))}, b...)
}

// A header may come byte by byte, in many lines.
func TestSlowRequest(t *testing.T) {
	t.Parallel()
	for name, field := range map[string]string{"long": "X: " + strings.Repeat("y", 15000), "many": strings.Repeat("a:\r\n", 3000) + "b:"} {
		for end, want := range map[string]error{"\r\n\r\n": nil, "\n\n": nil, "": io.ErrUnexpectedEOF} {
			sent := "GET / HTTP/1.1\r\nHost: a.example\r\n" + field + end
			body := map[bool]string{true: "body"}[want == nil]
			read, err := greetings[80].check(iotest.OneByteReader(strings.NewReader(sent+body)), "a.example")
			if err != want || string(read) != sent {
				t.Errorf("%s, %q: %d bytes, %v", name, end, len(read), err)
			}
		}
	}
}

func TestHello(t *testing.T) {
	t.Parallel()
	whole := hello(t, "a.example")
	other := append([]byte{0, 23, 0, 0}, named("A.example")...)
	long := append([]byte{0, 21, 0x3f, 0x00}, make([]byte, 0x3f00)...) // padding
	for name, b := range map[string][]byte{
		"Go's":                  whole,
		"in another form":       withExtensions(other),
		"with a long extension": withExtensions(append(long, named("a.example")...)),
	} {
		for _, rest := range []string{"", "and more"} {
			sent := append(bytes.Clone(b), rest...)
			read, err := greetings[443].check(bytes.NewReader(sent), "a.example")
			if err != nil || !bytes.HasPrefix(sent, read) || len(read) < len(b) {
				t.Errorf("%s: %d of %d bytes, error %v", name, len(read), len(b), err)
			}
			if read, err := greetings[443].check(iotest.OneByteReader(bytes.NewReader(sent)), "a.example"); err != nil || len(read) != len(b) {
				t.Errorf("%s, byte by byte: %d of %d bytes, error %v", name, len(read), len(b), err)
			}
		}
	}
	for name, test := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":            {nil, io.EOF},
		"a part":             {whole[:100], io.ErrUnexpectedEOF},
		"an alert":           {[]byte{21, 3, 1, 0, 2, 2, 40}, errNoTLS},
		"SSL 2":              {[]byte{0x80, 0x2e, 1, 3, 1}, errNoTLS},
		"HTTP":               {[]byte("GET / HTTP/1.1\r\n"), errNoTLS},
		"one byte of SSH":    {[]byte("S"), io.ErrUnexpectedEOF},
		"a ServerHello":      {[]byte{22, 3, 3, 0, 4, 2, 0, 0, 0}, errHello},
		"an empty record":    {[]byte{22, 3, 3, 0, 0}, errHello},
		"a record too long":  {append([]byte{22, 3, 3, 0x40, 1}, make([]byte, 0x4001)...), errHello},
		"a message too long": {[]byte{22, 3, 3, 0, 4, 1, 1, 0, 1}, errHello},
		"a hello too long":   {[]byte{22, 3, 3, 0, 4, 1, 0, 0x80, 0}, errHello},
		"no record so long":  {append([]byte{22, 3, 3, 0x48, 1}, make([]byte, 0x4801)...), errNoTLS},
		"in records":         {records(whole, 100), errHello},
		"in records of one":  {records(whole, 1), errHello},
		"no extensions":      {withExtensions(nil), errNoSNI},
		"none of them":       {withExtensions([]byte{}), errNoSNI},
		"no name":            {withExtensions([]byte{0, 23, 0, 0}), errNoSNI},
		"an empty list":      {withExtensions(named()), errHello},
		"an empty name":      {withExtensions(named("")), errHello},
		"a dot at the end":   {withExtensions(named("a.example.")), errHello},
		"two names":          {withExtensions(named("a.example", "b.example")), errHello},
		"two extensions":     {withExtensions(append(named("a.example"), named("a.example")...)), errHello},
		"a cut extension":    {withExtensions(named("a.example")[:10]), errHello},
		"a byte too many":    {withExtensions(append(named("a.example"), 0)), errHello},
		"bare TLS":           {[]byte{22, 3, 3, 0, 4, 1, 0, 0, 0}, errHello},
	} {
		if _, err := greetings[443].check(bytes.NewReader(test.b), "a.example"); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	for claim, want := range map[string]string{
		"b.example":         "the server name in TLS is b.example",
		"a.example.b":       "the server name in TLS is a.example.b",
		"a.example\x00":     `the server name in TLS is "a.example\x00"`,
		"\x1b[2J\u202ename": `the server name in TLS is "\x1b[2J\u202ename"`,
	} {
		if _, err := greetings[443].check(bytes.NewReader(withExtensions(named(claim))), "a.example"); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", claim, err, want)
		}
	}
}

func TestRequest(t *testing.T) {
	t.Parallel()
	for _, request := range []string{
		"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"GET /x?y HTTP/1.0\nX: y\nhost:\tA.EXAMPLE.:8080 \n\n",
		"OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"POST / HTTP/1.1\r\nX: " + strings.Repeat("x", 15<<10) + "\r\nHost: a.example\r\n\r\n",
	} {
		for _, rest := range []string{"", "body"} {
			read, err := greetings[80].check(strings.NewReader(request+rest), "a.example")
			if err != nil || !strings.HasPrefix(request+rest, string(read)) || len(read) < len(request) {
				t.Errorf("%.60q: read %d, error %v", request, len(read), err)
			}
		}
		if read, err := greetings[80].check(iotest.OneByteReader(strings.NewReader(request)), "a.example"); err != nil || string(read) != request {
			t.Errorf("%.60q, byte by byte: read %d, error %v", request, len(read), err)
		}
	}
	for request, want := range map[string]string{
		"":                                      "EOF",
		"GET / HTTP/1.1\r\nHost: a.example\r\n": "unexpected EOF",
		"GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 16<<10): errLong.Error(),
		"get / HTTP/1.1\r\n": errNoHTTP.Error(),
		"\x16\x03\x01":       errNoHTTP.Error(),
		"\r\nGET / HTTP/1.1\r\nHost: a.example\r\n\r\n":                      errNoHTTP.Error(),
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":                                   errNoHTTP.Error(),
		"GET /\r\n":                                                          errNoHTTP.Error(),
		"GET  / HTTP/1.1\r\nHost: a.example\r\n\r\n":                         errNoHTTP.Error(),
		"GET / HTTP/1.1\r\n\r\n":                                             errNoHost.Error(),
		"GET / HTTP/1.1\r\nHost:\r\n\r\n":                                    errNoHost.Error(),
		"GET / HTTP/1.1\r\nHost: a.example\r\nHOST: b.example\r\n\r\n":       errHosts.Error(),
		"GET / HTTP/1.1\r\nHost: a.example\r\nHost: a.example\r\n\r\n":       errHosts.Error(),
		"GET / HTTP/1.1\r\nHost : b.example\r\nHost: a.example\r\n\r\n":      errRequest.Error(),
		"GET / HTTP/1.1\r\n Host: b.example\r\nHost: a.example\r\n\r\n":      errRequest.Error(),
		"GET / HTTP/1.1\r\nX: y\r\n folded\r\nHost: a.example\r\n\r\n":       errRequest.Error(),
		"GET / HTTP/1.1\r\nX: y\rHost: b.example\r\nHost: a.example\r\n\r\n": errRequest.Error(),
		"GET / HTTP/1.1\r\nX\r\nHost: a.example\r\n\r\n":                     errRequest.Error(),
		"GET / HTTP/1.1\r\nHost: a.example\x00.b\r\n\r\n":                    errRequest.Error(),
		"GET x HTTP/1.1\r\nHost: a.example\r\n\r\n":                          errProxied.Error(),
		"GET http:// HTTP/1.1\r\nHost: a.example\r\n\r\n":                    errProxied.Error(),
		"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n":          errProxied.Error(),
		"GET http://b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n":          errProxied.Error(),
		"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n":      errProxied.Error(),
		"GET / HTTP/1.1\r\nHost: b.example:80\r\n\r\n":                       "the Host of the HTTP request is b.example",
		"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n":                           `the Host of the HTTP request is "[::1]:80"`,
		"GET / HTTP/1.1\r\nHost: a.example, b.example\r\n\r\n":               `the Host of the HTTP request is "a.example, b.example"`,
		"GET / HTTP/1.1\r\nHost: a.example:b\r\n\r\n":                        `the Host of the HTTP request is "a.example:b"`,
		"GET / HTTP/1.1\r\nHost: " + strings.Repeat("b", 1<<10) + "\r\n\r\n": `the Host of the HTTP request is "` + strings.Repeat("b", 256) + `"`,
	} {
		read, err := greetings[80].check(strings.NewReader(request), "a.example")
		if err == nil || err.Error() != want {
			t.Errorf("%.80q: %v, want %s", request, err, want)
		}
		if !strings.HasPrefix(request, string(read)) || len(read) > maxRequest+4<<10 {
			t.Errorf("%.80q: read %d", request, len(read))
		}
	}
}

// fuzzGreeting tests that what is accepted means the same name to a server, and that this does not
// depend on how it arrives.
func fuzzGreeting(f *testing.F, port uint16, server func(b []byte) (string, bool)) {
	g := greetings[port]
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<12 {
			return // byte by byte takes long
		}
		read, err := g.check(bytes.NewReader(b), "a.example")
		if !bytes.HasPrefix(b, read) {
			t.Fatalf("read %q", read)
		}
		again, err2 := g.check(iotest.OneByteReader(bytes.NewReader(b)), "a.example")
		if (err == nil) != (err2 == nil) || !bytes.HasPrefix(read, again) {
			t.Errorf("at once: %v; byte by byte: %v", err, err2)
		}
		if err == nil {
			if name, ok := server(b); ok && !strings.EqualFold(strings.TrimSuffix(name, "."), "a.example") {
				t.Errorf("a server reads %q", name)
			}
		}
	})
}

// hostOf gives the host as net/http reads it.
func hostOf(b []byte) (string, bool) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
	if err != nil {
		return "", false
	}
	return withoutPort(r.Host), true
}

func TestServersAgree(t *testing.T) {
	t.Parallel()
	if name, ok := hostOf([]byte("GET / HTTP/1.1\r\nHost: a.example:80\r\n\r\n")); !ok || name != "a.example" {
		t.Errorf("%q %v", name, ok)
	}
}

func FuzzHello(f *testing.F) {
	f.Add(hello(f, "a.example"))
	f.Add(records(withExtensions(named("a.example")), 9))
	f.Add(withExtensions(append(named("a.example"), named("b.example")...)))
	fuzzGreeting(f, 443, func([]byte) (string, bool) { return "", false }) // it is read as servers in Go do
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"))
	f.Add([]byte("GET http://a.example:80/ HTTP/1.0\nX: y\nhost: A.example.:8\n\nbody"))
	f.Add([]byte("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n"))
	fuzzGreeting(f, 80, hostOf)
}
