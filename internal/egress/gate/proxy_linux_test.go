package gate

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/egress"
)

// behindProxy is a world whose gate is a proxy.
func behindProxy(t *testing.T, change func(*Config), rules ...string) *world {
	t.Helper()
	return newWorld(t, func(c *Config) {
		c.Proxy = &Proxy{}
		if change != nil {
			change(c)
		}
	}, rules...)
}

// variable is the value that programs find.
func (w *world) variable(name string) string {
	w.t.Helper()
	for _, v := range w.Environment() {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	w.t.Fatalf("no %s in %q", name, w.Environment())
	return ""
}

// browser asks the proxy that a variable names.
func (w *world) browser(variable string) *http.Client {
	w.t.Helper()
	proxy, err := url.Parse(w.variable(variable))
	if err != nil {
		w.t.Fatal(err)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

func get(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	r, err := c.Get(url)
	if err != nil {
		return "error: " + err.Error()
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	return fmt.Sprintf("%d %s", r.StatusCode, body)
}

// plain has a server of HTTP say what it is asked for.
func (w *world) plain(at, who string) {
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(rw, "%s: %s %s %s", who, r.Host, r.URL, body)
	}))
	w.t.Cleanup(s.Close)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.servers[at] = s.Listener.Addr().String()
}

const other = "93.184.216.35"

func TestProxyHTTP(t *testing.T) {
	if !inside(t) {
		return
	}
	w := behindProxy(t, nil, "a.example", "b.example", "*.c.example:8080", "d.example")
	w.answer("a.example", public)
	w.answer("b.example", other)
	w.answer("x.c.example", public)
	w.answer("d.example", "10.0.0.1")
	w.plain(public+":80", "a")
	w.plain(other+":80", "b")
	w.plain(public+":8080", "c")
	w.secure(public + ":443")
	c := w.browser("HTTP_PROXY")
	for range 2 { // a program keeps its connection for the next name, if it may
		for url, want := range map[string]string{
			"http://a.example/x?y":       "200 a: a.example /x?y ",
			"http://B.example":           "200 b: B.example / ",
			"http://x.c.example:8080/":   "200 c: x.c.example:8080 / ",
			"https://a.example/":         "200 secure a.example",
			"http://e.example/":          "403 sbxhost: e.example:80: no rule allows it\n",
			"http://c.example:8080/":     "403 sbxhost: c.example:8080: no rule allows it\n",
			"http://x.c.example/":        "403 sbxhost: x.c.example:80: port 80 is not in the rule\n",
			"http://93.184.216.34/":      "403 sbxhost: 93.184.216.34:80: no rule allows it\n",
			"http://[2001:db8::1]:8080/": "403 sbxhost: \"2001:db8::1\":8080: no rule allows it\n",
			"http://d.example/":          "403 sbxhost: d.example:80: 10.0.0.1 is private (RFC 1918)\n",
			"http://y.c.example:8080/":   "502 sbxhost: y.c.example:8080: lookup y.c.example: no such host\n",
			"https://b.example/":         "error: Get \"https://b.example/\": Bad Gateway",
			"https://e.example/":         "error: Get \"https://e.example/\": Forbidden",
			"https://93.184.216.34/":     "error: Get \"https://93.184.216.34/\": Forbidden",
		} {
			if got := get(t, c, url); got != want {
				t.Errorf("%s: %q, want %q", url, got, want)
			}
		}
	}
	r, err := c.Post("http://a.example/p", "text/plain", struct{ io.Reader }{strings.NewReader(strings.Repeat("z", 100_000))}) // in chunks
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(r.Body); len(body) != len("a: a.example /p ")+100_000 {
		t.Errorf("%d bytes came back", len(body))
	}
	r.Body.Close()
	c.CloseIdleConnections()
	w.reason("e.example", 80, "no rule allows it")
	w.reason("e.example", 443, "no rule allows it")
	w.reason("93.184.216.34", 443, "no rule allows it")
	w.reason(`"2001:db8::1"`, 8080, "no rule allows it")
	w.reason("x.c.example", 80, "port 80 is not in the rule")
	w.reason("d.example", 80, "10.0.0.1 is private (RFC 1918)")
	if d := w.decision("y.c.example", 8080, true); !strings.Contains(d.Reason, "no such host") {
		t.Errorf("%+v", d)
	}
	if d := w.decision("b.example", 443, true); !strings.Contains(d.Reason, "refused") {
		t.Errorf("%+v", d)
	}
	if d := w.decision("a.example", 443, true); d.Address != public || d.Sent < 200 || d.Received < 500 {
		t.Errorf("%+v", d)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, to := range w.dialled {
		if to.Addr() != netip.MustParseAddr(public) && to.Addr() != netip.MustParseAddr(other) {
			t.Errorf("dialled %v", to)
		}
	}
}

// Other ports than those of HTTP and TLS, and programs that know only ALL_PROXY.
func TestProxyConnect(t *testing.T) {
	if !inside(t) {
		return
	}
	w := behindProxy(t, nil, "a.example:80,443,7000", "db.internal:5432 private")
	w.answer("a.example", public)
	w.answer("db.internal", "10.0.0.1")
	w.plain(public+":80", "a")
	w.secure(public + ":443")
	w.serve("10.0.0.1:5432", func(c *net.TCPConn) { // it hears all before it speaks
		said, _ := io.ReadAll(c)
		fmt.Fprintf(c, "%d bytes", len(said))
	})
	w.serve(public+":7000", func(c *net.TCPConn) { io.WriteString(c, "hello") }) // it speaks first
	c := w.browser("ALL_PROXY")
	for url, want := range map[string]string{
		"http://a.example/":  "200 a: a.example / ",
		"https://a.example/": "200 secure a.example",
	} {
		if got := get(t, c, url); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
	exchange(t, w.connect("db.internal:5432", ""), strings.Repeat("x", 1<<20), "1048576 bytes")
	if got, err := io.ReadAll(w.connect("a.example:7000", "")); string(got) != "hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for name, shown := range map[string]string{"b.example": "", "10.0.0.1": "", "::1": `"::1"`, "fe80::1%\x1b": `"fe80::1%\x1b"`, "localhost": "", "metadata.google.internal": ""} {
		w.refusedConnect(net.JoinHostPort(name, "443"))
		w.decision(cmp.Or(shown, name), 443, false)
	}
	w.refusedConnect("db.internal:443")
}

// refusedConnect asks by CONNECT for what is forbidden.
func (w *world) refusedConnect(at string) {
	w.t.Helper()
	c := w.proxied()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", at, at)
	if reply, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(reply), "HTTP/1.1 403 ") {
		w.t.Errorf("%s: %q, %v", at, reply, err)
	}
}

// proxied connects to the proxy.
func (w *world) proxied() *net.TCPConn {
	w.t.Helper()
	return dialAddr(w.t, netip.MustParseAddrPort(strings.TrimPrefix(w.variable("HTTP_PROXY"), "http://")))
}

// connect asks by CONNECT.
func (w *world) connect(at, and string) *net.TCPConn {
	w.t.Helper()
	c := w.proxied()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n%s", at, at, and)
	reply := bufio.NewReaderSize(io.LimitReader(c, int64(len("HTTP/1.1 200 Connection established\r\n\r\n"))), 256)
	if line, err := reply.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 200 ") {
		w.t.Fatalf("%s: %q, %v", at, line, err)
	}
	reply.ReadString('\n')
	return c
}

// What goes through must begin as it must without a proxy.
func TestProxyGreetings(t *testing.T) {
	if !inside(t) {
		return
	}
	w := behindProxy(t, nil, "a.example:80,443,22")
	w.answer("a.example", public)
	w.secure(public + ":443")
	w.serve(public+":80", echo)
	w.serve(public+":22", echo)
	handshake := func(claim string) error {
		return tls.Client(w.connect("A.example:443", ""), &tls.Config{ServerName: claim, InsecureSkipVerify: true}).Handshake()
	}
	if err := handshake("a.example"); err != nil {
		t.Error(err)
	}
	if err := handshake("b.example"); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("for another name: %v", err)
	}
	w.reason("a.example", 443, "the server name in TLS is b.example")
	w.forget()
	if err := handshake(""); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("for no name: %v", err)
	}
	w.reason("a.example", 443, "TLS names no server (SNI)")
	const request, evil = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "GET / HTTP/1.1\r\nHost: b.example\r\n\r\n"
	exchange(t, w.connect("a.example:80", ""), request, request)
	exchange(t, w.connect("a.example:80", request), "more", request+"more") // said before it was granted
	exchange(t, w.connect("a.example:80", request+"body"), "more", request+"bodymore")
	c := w.connect("a.example:80", evil)
	isReset(t, c)
	w.reason("a.example", 80, "the Host of the HTTP request is b.example")
	exchange(t, w.connect("a.example:22", "SSH-2.0-x\r\n"), evil, "SSH-2.0-x\r\n"+evil)
}

// forget drops the decisions that were told.
func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = nil
}

func TestProxyPassword(t *testing.T) {
	if !inside(t) {
		return
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	w := behindProxy(t, func(c *Config) { c.Sockets, c.Proxy = nil, &Proxy{Listener: l, Password: "secret"} }, "a.example")
	w.answer("a.example", public)
	w.plain(public+":80", "a")
	w.secure(public + ":443")
	for _, variable := range []string{"http_proxy", "all_proxy"} {
		c := w.browser(variable)
		if got := get(t, c, "http://a.example/") + get(t, c, "https://a.example/"); got != "200 a: a.example / 200 secure a.example" {
			t.Errorf("%s: %q", variable, got)
		}
	}
	without, _ := url.Parse("http://" + l.Addr().String())
	transport := &http.Transport{Proxy: http.ProxyURL(without)}
	t.Cleanup(transport.CloseIdleConnections)
	if got := get(t, &http.Client{Transport: transport}, "http://a.example/"); !strings.HasPrefix(got, "407 ") {
		t.Errorf("without the password: %q", got)
	}
}

// More than there may be at once wait for one another.
func TestProxyAtOnce(t *testing.T) {
	if !inside(t) {
		return
	}
	w := behindProxy(t, bounded(func(b *bounds) { b.connections = 8 }), "*.a.example:7")
	w.answer("*.a.example", public)
	w.serve(public+":7", echo)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			c, err := net.Dial("tcp", strings.TrimPrefix(w.variable("HTTP_PROXY"), "http://"))
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			text := fmt.Sprintf("%d", i)
			fmt.Fprintf(c, "CONNECT n%d.a.example:7 HTTP/1.1\r\n\r\n%s", i%20, text)
			c.(*net.TCPConn).CloseWrite()
			if got, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(got), "\r\n\r\n"+text) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	all.Wait()
	sum := uint64(0)
	w.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.told {
		if d.Reason != "8 connections are open, and more of them wait" {
			sum += d.Connections
		}
	}
	if sum != 100 {
		t.Errorf("%d connections were told of", sum)
	}
}

// A proxy that is gone leaves programs without a network, and what was on its way is sent.
func TestProxyGone(t *testing.T) {
	if !inside(t) {
		return
	}
	heard := make(chan string, 1)
	release := make(chan struct{})
	w := behindProxy(t, nil, "a.example:7")
	w.answer("a.example", public)
	w.serve(public+":7", func(c *net.TCPConn) {
		<-release
		said, _ := io.ReadAll(c)
		heard <- string(said)
	})
	at := strings.TrimPrefix(w.variable("HTTP_PROXY"), "http://")
	c := w.connect("a.example:7", "")
	io.WriteString(c, strings.Repeat("x", 100_000))
	c.Close()
	closed := make(chan struct{})
	go func() {
		w.Close()
		close(closed)
	}()
	<-w.closing.Done()
	close(release)
	<-closed
	if got := <-heard; len(got) != 100_000 {
		t.Errorf("%d bytes arrived", len(got))
	}
	if c, err := new(net.Dialer).DialContext(context.Background(), "tcp", at); err == nil {
		c.Close()
		t.Error("the proxy is still there")
	}
}

// No command can bring a proxy to remember more than it may.
func TestProxyNames(t *testing.T) {
	if !inside(t) {
		return
	}
	w := behindProxy(t, bounded(func(b *bounds) { b.names = 5 }), "*.a.example:7")
	w.answer("*.a.example", public)
	w.serve(public+":7", echo)
	w.answer("private.a.example", "10.0.0.1") // it counts too
	w.refusedConnect("private.a.example:7")
	for i := range 4 {
		w.connect(fmt.Sprintf("n%d.a.example:7", i), "").Close()
	}
	w.refusedConnect("n6.a.example:7")
	w.reason("n6.a.example", 7, "5 names have been asked for, and no more are given")
	w.connect("n0.a.example:7", "").Close()
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	g := &Gate{config: Config{Proxy: &Proxy{Password: "p"}}, proxyAt: netip.MustParseAddrPort("127.0.0.1:4000")}
	got := strings.Join(g.Environment(), " ")
	for _, want := range []string{"HTTP_PROXY=http://sbxhost:p@127.0.0.1:4000", "https_proxy=http://sbxhost:p@127.0.0.1:4000", "ALL_PROXY=http://sbxhost:p@127.0.0.1:4000", "no_proxy=" + egress.NoProxy} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if list := (&Gate{}).Environment(); list != nil {
		t.Errorf("without a proxy: %q", list)
	}
}
