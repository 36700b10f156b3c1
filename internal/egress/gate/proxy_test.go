package gate

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

// conversation asks a proxy, and gives what it understood and its reply to a wrong request.
func conversation(said, password string, slow bool) (*request, string, error) {
	r := io.Reader(strings.NewReader(said))
	if slow {
		r = iotest.OneByteReader(r)
	}
	asked, err := readRequest(bufio.NewReader(r), password)
	if refused, ok := errors.AsType[*refusal](err); ok {
		return nil, string(httpReply(refused.status, refused.Error())), err
	}
	return asked, "", err
}

func TestAskedByHTTP(t *testing.T) {
	t.Parallel()
	const refused = "\x00refused"
	long := strings.Repeat("x", maxRequest)
	for said, want := range map[string]string{
		"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n":                       "a.example 443",
		"CONNECT a.example:22 HTTP/1.0\r\n\r\n":                                               "a.example 22",
		"CONNECT a.example:22 HTTP/1.0\n\n":                                                   "a.example 22",
		"CONNECT [2001:db8::1]:443 HTTP/1.1\r\n\r\n":                                          "2001:db8::1 443",
		"CONNECT 10.0.0.1:443 HTTP/1.1\r\nHost: a.example\r\n\r\n":                            "10.0.0.1 443",
		"CONNECT a.example HTTP/1.1\r\n\r\n":                                                  refused,
		"CONNECT :443 HTTP/1.1\r\n\r\n":                                                       refused,
		"CONNECT a.example:0 HTTP/1.1\r\n\r\n":                                                refused,
		"CONNECT a.example:70000 HTTP/1.1\r\n\r\n":                                            refused,
		"CONNECT a.example:http HTTP/1.1\r\n\r\n":                                             refused,
		"GET http://a.example/p?q HTTP/1.1\r\nHost: a.example\r\n\r\n":                        "a.example 80 GET /p?q HTTP/1.1|Host: a.example|Connection: close||",
		"GET HTTP://a.example?q HTTP/1.1\r\nHost: a.example\r\n\r\n":                          "a.example 80 GET /?q HTTP/1.1|Host: a.example|Connection: close||",
		"GET http://a.example HTTP/1.1\r\nHost: A.example\r\n\r\n":                            "a.example 80 GET / HTTP/1.1|Host: A.example|Connection: close||",
		"POST http://a.example:8080/ HTTP/1.1\nHost: a.example:8080\nContent-Length: 2\n\nab": "a.example 8080 POST / HTTP/1.1|Host: a.example:8080|Content-Length: 2|Connection: close||",
		"GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n":                           refused,
		"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nHost: a.example\r\n\r\n":        refused,
		"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n folded\r\n\r\n":                refused,
		"GET http://a.example/ HTTP/1.1\r\nHost : a.example\r\n\r\n":                          refused,
		"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX: a\rHost: b\r\n\r\n":          refused,
		"GET http://a.example/ HTTP/1.1\r\n\r\n":                                              refused,
		"GET http://a.example@b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n":                 refused,
		"GET http://b.example#a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n":                 refused,
		"GET http://b.example\\a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n":                refused,
		"GET http:// HTTP/1.1\r\nHost: a.example\r\n\r\n":                                     refused,
		"GET http://a.example/ HTTP/1.0\r\nHost: a.example\r\n\r\n":                           refused,
		"GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n":                          refused,
		"GET http://u:p@a.example/ HTTP/1.1\r\nHost: u:p@a.example\r\n\r\n":                   refused,
		"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n":                                           refused,
		"GET http://a.example/ HTTP/2.0\r\nHost: a.example\r\n\r\n":                           refused,
		"\x05\x01\x00":                  refused, // SOCKS
		"\x16\x03\x01\x00\x05hello\n\n": refused,
		"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX: " + long + "\r\n\r\n": refused,
		"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nConnection: keep-alive, Upgrade\r\n" + "Proxy-Connection: keep-alive\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\nTE: trailers\r\nProxy-Authorization: Basic x\r\nAccept: */*\r\n\r\n": "a.example 80 GET / HTTP/1.1|Host: a.example|Accept: */*|Connection: close||",
	} {
		for _, slow := range []bool{false, true} {
			asked, reply, err := conversation(said, "", slow)
			if want == refused {
				if err == nil || !strings.HasPrefix(reply, "HTTP/1.1 400 ") || !strings.HasSuffix(reply, "\n") {
					t.Errorf("%.80q: %+v, %q, %v", said, asked, reply, err)
				}
				continue
			}
			if err != nil || reply != "" {
				t.Errorf("%.80q: %q, %v", said, reply, err)
				continue
			}
			host, rest, _ := strings.Cut(want, " ")
			port, first, forwards := strings.Cut(rest, " ")
			got := strings.ReplaceAll(string(asked.first), "\r\n", "|")
			if asked.host != host || port != strconv.Itoa(int(asked.port)) || got != first || forwards != (asked.first != nil) {
				t.Errorf("%.80q: %+v, first %q", said, asked, got)
			}
		}
	}
	// What is not there yet is no request.
	if _, reply, err := conversation("CONNECT a.example:443 HTTP/1.1\r\nHost: a", "", false); !errors.Is(err, io.EOF) || reply != "" {
		t.Errorf("half a request: %q, %v", reply, err)
	}
}

func TestPassword(t *testing.T) {
	t.Parallel()
	const connect = "CONNECT a.example:443 HTTP/1.1\r\n"
	for said, want := range map[string]string{ // what the reply begins with, or "" if it is understood
		connect + "Proxy-Authorization: Basic c2J4aG9zdDpzZWNyZXQ=\r\n\r\n":   "",
		connect + "proxy-authorization: basic  c2J4aG9zdDpzZWNyZXQ=\r\n\r\n":  "",
		connect + "Proxy-Authorization: Basic c2J4aG9zdDpvdGhlcg==\r\n\r\n":   "HTTP/1.1 407 ",
		connect + "Proxy-Authorization: Basic\r\n\r\n":                        "HTTP/1.1 407 ",
		connect + "X-Proxy-Authorization: Basic c2J4aG9zdDpzZWNyZXQ=\r\n\r\n": "HTTP/1.1 407 ",
		connect + "\r\n": "HTTP/1.1 407 ",
	} {
		asked, reply, err := conversation(said, "secret", true)
		switch {
		case want == "" && (err != nil || asked.host != "a.example" || asked.port != 443):
			t.Errorf("%q: %q, %v", said, reply, err)
		case want != "" && (err == nil || !strings.HasPrefix(reply, want)):
			t.Errorf("%q: %q, %v", said, reply, err)
		}
	}
}

// Nothing that is said to a proxy breaks it, and no server is sent another request than the
// one that was judged.
func FuzzAsked(f *testing.F) {
	for _, said := range []string{
		"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n", "GET http://a.example/p?q HTTP/1.1\r\nHost: a.example\r\nConnection: x\r\n\r\nrest",
		"A http:// HTTP/1.\n\n",
	} {
		f.Add(said)
	}
	f.Fuzz(func(t *testing.T, said string) {
		asked, _, err := conversation(said, "", false)
		if err != nil || asked.first == nil || strings.Contains(asked.host, ":") { // an address, which is refused
			return
		}
		name, _, err := requestName(bytes.NewReader(asked.first))
		if err != nil || !strings.EqualFold(name, asked.host) {
			t.Errorf("%q is about %q, and the server is sent %q: %q, %v", said, asked.host, asked.first, name, err)
		}
		if lines := strings.Split(string(asked.first), "\r\n"); !slices.Contains(lines, "Connection: close") {
			t.Errorf("%q leaves the connection open: %q", said, asked.first)
		}
	})
}
