package gate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sbxhost/sbxhost/internal/egress"
	"github.com/sbxhost/sbxhost/shared"
)

// An Injection puts credentials into requests. On port 443 of their hosts, the gate is then the TLS
// server for the sandbox, and a client of the real host. It passes on all other connections
// unchanged.
type Injection struct {
	// Certificate is valid for all hosts of Credentials. Programs inside trust it.
	Certificate tls.Certificate
	Credentials []shared.Credential
	// Roots are the authorities that the gate trusts to name the real hosts; nil means those of
	// this machine.
	Roots *x509.CertPool

	latest atomic.Pointer[[]shared.Credential]
}

// Renew replaces the values of the credentials; everything else must be the same. Every later
// request gets the new values, also in running gates.
func (of *Injection) Renew(credentials []shared.Credential) { of.latest.Store(&credentials) }

// current returns the credentials with their newest values.
func (of *Injection) current() []shared.Credential {
	if renewed := of.latest.Load(); renewed != nil {
		return *renewed
	}
	return of.Credentials
}

// injectPort is the port of hosts of credentials.
const injectPort = 443

// http1 is the only version for hosts of credentials. With HTTP/2, a command could make the gate
// hold much for little: streams, windows, compressed headers.
var http1 = func() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}()

// An injector handles the requests of one gate to hosts of credentials.
type injector struct {
	gate *Gate
	of   *Injection

	accepted chan net.Conn
	server   http.Server
	served   chan struct{} // closed after server has ended
	outside  http.Transport
	proxy    httputil.ReverseProxy
	places   slots // connections from the command
}

// has reports whether the gate is the TLS server for a port of a name.
func (in *injector) has(name string, port uint16) bool {
	return in != nil && port == injectPort && slices.ContainsFunc(in.of.Credentials, func(c shared.Credential) bool { return slices.Contains(c.Hosts, name) })
}

// newInjector starts the server; nil means no credentials.
func newInjector(g *Gate, of *Injection) *injector {
	if of == nil {
		return nil
	}
	in := &injector{gate: g, of: of, accepted: make(chan net.Conn), served: make(chan struct{}), places: make(slots, g.bounds.injecting)}
	// The contents of requests are not in these logs, but the engine's user would see the logs.
	silent := stdlog.New(io.Discard, "", 0)
	t := &in.outside
	t.DialContext, t.TLSClientConfig, t.DisableCompression = in.dial, &tls.Config{RootCAs: in.of.Roots}, true
	t.TLSHandshakeTimeout, t.ExpectContinueTimeout, t.IdleConnTimeout = greetingTimeout, greetingTimeout, in.gate.bounds.idle
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxResponseHeaderBytes = maxIdle, maxIdle, maxResponse
	// A limit also for abandoned requests: a program can give a request up before its host has
	// answered.
	t.MaxConnsPerHost = cap(in.places)
	t.Protocols = http1
	in.proxy = httputil.ReverseProxy{Rewrite: in.rewrite, Transport: t, FlushInterval: -1, ErrorLog: silent,
		BufferPool: copyBuffers{}, ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			t, why := terminatedOf(r), upstreamError(err)
			if !errors.Is(err, context.Canceled) { // no reason if the command itself did not wait
				t.note(why)
			}
			http.Error(w, fmt.Sprintf("sbxhost: %s:%d: %s", t.of.decision.Name, injectPort, why), http.StatusBadGateway)
		}}
	in.server = http.Server{
		Handler: in, ErrorLog: silent, ReadHeaderTimeout: greetingTimeout, IdleTimeout: in.gate.bounds.idle, DisableGeneralOptionsHandler: true,
		MaxHeaderBytes: in.gate.bounds.header, Protocols: http1,
		TLSConfig:   &tls.Config{Certificates: []tls.Certificate{in.of.Certificate}},
		BaseContext: func(net.Listener) context.Context { return in.gate.ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, terminatedKey{}, c.(*tls.Conn).NetConn())
		},
	}
	go func() {
		defer close(in.served)
		in.server.ServeTLS(injectorListener{in}, "", "")
	}()
	return in
}

// close is the last call, after all connections.
func (in *injector) close() {
	if in == nil {
		return
	}
	in.server.Close()
	<-in.served
	in.outside.CloseIdleConnections()
}

// serve answers the requests of a connection. The gate has already read first from it.
func (in *injector) serve(c *conn, n *name, first []byte) {
	c.decision.Allowed = true
	if !in.gate.enter(in.places, n.name, injectPort, "connections to hosts of credentials are open") {
		c.reset()
		return
	}
	defer in.places.give()
	t := &terminatedConn{Conn: c.inner, of: c, first: first, closed: make(chan struct{})}
	select {
	case in.accepted <- t:
		<-t.closed
	case <-in.gate.ctx.Done():
		c.reset()
	}
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.requests.Wait()
	n.mu.Lock()
	c.decision.Address = n.dialled
	n.mu.Unlock()
	c.decision.Reason = t.failed
}

// dial connects to a host of credentials. The transport can also call it after the command has given
// the request up.
func (in *injector) dial(ctx context.Context, _, at string) (net.Conn, error) {
	in.gate.mu.Lock()
	if in.gate.isClosing() && len(in.gate.conns) == 0 { // Close may wait for nothing more
		in.gate.mu.Unlock()
		return nil, net.ErrClosed
	}
	in.gate.wg.Add(1)
	in.gate.mu.Unlock()
	defer in.gate.wg.Done()
	host, _, err := net.SplitHostPort(at)
	if err != nil {
		return nil, err
	}
	n, _ := in.gate.names.at(host, nil, 0) // the command has connected to it
	port, _ := portAmong(n.ports, injectPort)
	outer, _, refused := in.gate.connectName(n, port)
	if refused != nil {
		return nil, refused
	}
	return outside{outer, context.AfterFunc(in.gate.ctx, func() { outer.Close() })}, nil
}

// outside is a connection to a host of credentials. It ends with the gate, even within an answer
// without an end.
type outside struct {
	net.Conn
	stop func() bool
}

func (o outside) Close() error {
	o.stop()
	return o.Conn.Close()
}

// upstreamError says why a request had no answer. It hides other errors, which quote the host's
// answer: that can contain the credential.
func upstreamError(err error) string {
	var dial *refusal
	var network net.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &dial), errors.As(err, &network), errors.As(err, &certificate):
		return err.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it ended the connection without an answer"
	}
	return "it gave no valid answer"
}

// rewrite makes the request for the real host.
func (in *injector) rewrite(r *httputil.ProxyRequest) {
	host := terminatedOf(r.In).of.decision.Name
	r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "https", host, r.In.Host
	r.Out.URL.RawQuery = r.In.URL.RawQuery
	for _, c := range in.of.current() {
		if !slices.Contains(c.Hosts, host) {
			continue
		}
		values := r.Out.Header[textproto.CanonicalMIMEHeaderKey(c.Header)]
		for i, value := range values {
			values[i] = put(&c, value)
		}
	}
}

// put puts the credential into a header's value, in place of the placeholder and nowhere else.
func put(c *shared.Credential, value string) string {
	scheme, encoded, ok := strings.Cut(value, " ")
	if ok && strings.EqualFold(scheme, "Basic") {
		text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
		if err != nil || !strings.Contains(string(text), c.Placeholder) {
			return value
		}
		return scheme + " " + base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(string(text), c.Placeholder, string(c.Value))))
	}
	return strings.ReplaceAll(value, c.Placeholder, string(c.Value))
}

// misdirected says why a request is not for the connection's host, or "". The gate chooses the
// credential by that host, but a server behind it may choose its site by any of these fields.
func misdirected(r *http.Request, host string) string {
	name, port, hasPort := strings.Cut(r.Host, ":")
	canonical, ok := egress.Canonical(name)
	sni, _ := egress.Canonical(r.TLS.ServerName)
	switch {
	case r.Method == http.MethodConnect || r.Method == http.MethodTrace || r.Method == "TRACK":
		// These lead to another host, or send the request's content back.
		return fmt.Sprintf("requests with the method %s are not passed on where a credential is put in", r.Method)
	case r.URL.Host != "" || r.URL.Scheme != "":
		return "the request has a whole URL, as a proxy is asked"
	case !ok || canonical != host || hasPort && port != "443":
		return fmt.Sprintf("the HTTP request is for %s", shown(r.Host))
	case sni != host:
		return fmt.Sprintf(greetings[injectPort].differs, shown(r.TLS.ServerName))
	}
	return ""
}

// ServeHTTP passes on a request, if it is for the connection's host.
func (in *injector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t := terminatedOf(r)
	if !t.enter() {
		return
	}
	defer t.requests.Done()
	if why := misdirected(r, t.of.decision.Name); why != "" {
		in.gate.decided(egress.Decision{Name: t.of.decision.Name, Port: injectPort, Reason: why})
		w.Header().Set("Connection", "close")
		http.Error(w, "sbxhost: "+why, http.StatusMisdirectedRequest)
		return
	}
	// An answer can begin before the request has ended.
	_ = http.NewResponseController(w).EnableFullDuplex()
	in.proxy.ServeHTTP(w, r)
}

// A terminatedConn is a connection of the sandbox whose TLS the gate ends.
type terminatedConn struct {
	net.Conn
	of    *conn
	first []byte                    // what Read returns first
	until atomic.Pointer[time.Time] // the deadline of a write with a time limit; nil for none

	close    sync.Once
	closed   chan struct{}
	mu       sync.Mutex
	ended    bool // no further request begins
	failed   string
	requests sync.WaitGroup
}

type terminatedKey struct{}

func terminatedOf(r *http.Request) *terminatedConn {
	return r.Context().Value(terminatedKey{}).(*terminatedConn)
}

func (t *terminatedConn) Read(p []byte) (n int, err error) {
	if len(t.first) > 0 {
		n, t.first = copy(p, t.first), t.first[min(len(p), len(t.first)):]
	} else {
		n, err = t.Conn.Read(p)
	}
	t.of.sent.Add(int64(n))
	return n, err
}

// Write takes no longer than stuck, however many earlier bytes were taken.
func (t *terminatedConn) Write(p []byte) (int, error) {
	until := time.Now().Add(t.of.gate.bounds.stuck)
	if set := t.until.Load(); set != nil && set.Before(until) {
		until = *set
	}
	t.Conn.SetWriteDeadline(until)
	n, err := t.Conn.Write(p)
	t.of.received.Add(int64(n))
	return n, err
}

func (t *terminatedConn) SetWriteDeadline(at time.Time) error {
	if t.until.Store(nil); !at.IsZero() {
		t.until.Store(&at)
	}
	return t.Conn.SetWriteDeadline(at)
}

func (t *terminatedConn) SetDeadline(at time.Time) error {
	return errors.Join(t.SetReadDeadline(at), t.SetWriteDeadline(at))
}

func (t *terminatedConn) Close() error {
	err := t.Conn.Close()
	t.close.Do(func() { close(t.closed) })
	return err
}

// enter returns false after the connection has ended.
func (t *terminatedConn) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.requests.Add(1)
	}
	return !t.ended
}

// note keeps why a request had no answer.
func (t *terminatedConn) note(why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = clip(why)
}

// An injectorListener is the listener of the server.
type injectorListener struct{ *injector }

func (h injectorListener) Accept() (net.Conn, error) {
	select {
	case c := <-h.accepted:
		return c, nil
	case <-h.gate.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (injectorListener) Close() error   { return nil }
func (injectorListener) Addr() net.Addr { return &net.TCPAddr{} }

type copyBuffers struct{}

func (copyBuffers) Get() []byte  { return buffers.Get().(*[16 << 10]byte)[:] }
func (copyBuffers) Put(b []byte) { buffers.Put((*[16 << 10]byte)(b)) }
