package gate

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/egress"
	"github.com/sbxhost/sbxhost/shared"
	"golang.org/x/net/websocket"
)

const (
	theSecret      = "ghp_5ecret0123456789"
	thePlaceholder = "sbxhost.TOKEN.placeholder"
)

// certified is a certificate that is its own authority.
func certified(t *testing.T, names ...string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, DNSNames: names}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	parsed, _ := x509.ParseCertificate(der)
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// secured is a world in which requests to api.example get a credential.
type secured struct {
	*world
	real   tls.Certificate // of the real servers
	inside *x509.CertPool  // whom programs of the sandbox trust
	inject *Injection
	mu     sync.Mutex
	seen   []*http.Request // by the real server
}

// newSecured serves api.example, for which there is a credential, and other.example.
func newSecured(t *testing.T, handler http.HandlerFunc, change ...func(*Config)) *secured {
	t.Helper()
	real, roots := certified(t, "api.example", "other.example")
	shown, inside := certified(t, "api.example")
	s := &secured{real: real, inside: inside}
	s.world = newWorld(t, func(c *Config) {
		for _, f := range change {
			f(c)
		}
		c.Inject = &Injection{Certificate: shown, Roots: roots, Credentials: []shared.Credential{
			{Hosts: []string{"api.example", "elsewhere.example"}, Header: "Authorization", Placeholder: thePlaceholder, Value: theSecret},
			{Hosts: []string{"api.example"}, Header: "x-api-key", Placeholder: "Key " + thePlaceholder, Value: "Key " + theSecret},
		}}
		s.inject = c.Inject
	}, "api.example", "other.example", "api.example:8443")
	s.answer("api.example", public)
	s.answer("other.example", "93.184.216.35")
	for _, at := range []string{public + ":443", "93.184.216.35:443"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s.servers[at] = l.Addr().String()
		server := &http.Server{ErrorLog: stdlog.New(io.Discard, "", 0), TLSConfig: &tls.Config{Certificates: []tls.Certificate{real}},
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s.mu.Lock()
				s.seen = append(s.seen, r)
				s.mu.Unlock()
				handler(w, r)
			})}
		served := make(chan struct{})
		go func() {
			defer close(served)
			server.ServeTLS(l, "", "")
		}()
		t.Cleanup(func() { server.Close(); <-served })
	}
	t.Cleanup(s.keptSecret)
	inside.AddCert(parse(t, real)) // other.example is the real one
	return s
}

func parse(t *testing.T, c tls.Certificate) *x509.Certificate {
	t.Helper()
	parsed, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// keptSecret looks at all that the gate has told.
func (s *secured) keptSecret() {
	s.Close()
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	for _, d := range s.told {
		if text := fmt.Sprintf("%+v %v %v", d, d.String(), d.Details()); strings.Contains(text, theSecret) {
			s.t.Errorf("the gate tells it: %s", text)
		}
	}
}

// requests are those that the server got.
func (s *secured) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// client is a program of the sandbox, which also knows HTTP/2.
func (s *secured) client() *http.Client {
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: s.inside},
		DialContext: func(ctx context.Context, _, at string) (net.Conn, error) {
			d := net.Dialer{Resolver: resolver()}
			return d.DialContext(ctx, "tcp4", at)
		}}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// tell writes down a request with all that could have a credential in it.
func tell(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s|%s|%q|%q|%q|%s", r.Proto, r.Host, r.RequestURI, r.Header["Authorization"], r.Header["X-Api-Key"], r.Header["X-Other"], body)
}

func send(t *testing.T, client *http.Client, method, url, body string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range header {
		key, value, _ := strings.Cut(h, ": ")
		if r.Header.Add(key, value); key == "Host" {
			r.Host = value
		}
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// The credential comes into the header that is its own, and stays a placeholder everywhere else.
// The gate speaks HTTP/1 to both ends, of which each would take HTTP/2.
func TestInject(t *testing.T) {
	if !inside(t) {
		return
	}
	basic := func(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(s)) }
	s := newSecured(t, tell)
	client := s.client()
	for _, c := range []struct{ url, body, header, want string }{
		{"api.example/", "", "Authorization: Bearer " + thePlaceholder, `HTTP/1.1 api.example|/|["Bearer ` + theSecret + `"]|[]|[]|`},
		{"api.example/", "", "Authorization: token " + thePlaceholder, `HTTP/1.1 api.example|/|["token ` + theSecret + `"]|[]|[]|`},
		{"api.example/", "", "Authorization: " + basic("x:"+thePlaceholder), `HTTP/1.1 api.example|/|["` + basic("x:"+theSecret) + `"]|[]|[]|`},
		{"api.example/", "", "Authorization: basic " + basic("x:other")[6:], `HTTP/1.1 api.example|/|["basic ` + basic("x:other")[6:] + `"]|[]|[]|`},
		{"api.example/", "", "Authorization: Basic ?" + thePlaceholder, `HTTP/1.1 api.example|/|["Basic ?` + thePlaceholder + `"]|[]|[]|`},
		{"api.example/", "", "X-Api-Key: Key " + thePlaceholder, `HTTP/1.1 api.example|/|[]|["Key ` + theSecret + `"]|[]|`},
		{"api.example/", "", "X-Api-Key: " + thePlaceholder, `HTTP/1.1 api.example|/|[]|["` + thePlaceholder + `"]|[]|`},
		{"api.example/", "", "X-Other: Bearer " + thePlaceholder, `HTTP/1.1 api.example|/|[]|[]|["Bearer ` + thePlaceholder + `"]|`},
		{"api.example/", "", "Authorization: mine", `HTTP/1.1 api.example|/|["mine"]|[]|[]|`},
		{"api.example/a%2Fb/" + thePlaceholder + "?q=" + thePlaceholder + ";x&%zz", "in " + thePlaceholder, "X-Other: y",
			`HTTP/1.1 api.example|/a%2Fb/` + thePlaceholder + `?q=` + thePlaceholder + `;x&%zz|[]|[]|["y"]|in ` + thePlaceholder},
		{"api.example:443/", "", "Host: API.example.", `HTTP/1.1 API.example.|/|[]|[]|[]|`},
		{"other.example/", "", "Authorization: Bearer " + thePlaceholder, `HTTP/2.0 other.example|/|["Bearer ` + thePlaceholder + `"]|[]|[]|`},
	} {
		status, got := send(t, client, "POST", "https://"+c.url, c.body, c.header)
		if status != 200 || got != c.want {
			t.Errorf("%s with %s: %d %s, want %s", c.url, c.header, status, got, c.want)
		}
	}
	s.Close()
	d := s.decision("api.example", 443, true)
	if d.Address != public || d.Sent == 0 || d.Received == 0 || d.Reason != "" {
		t.Errorf("%+v", d)
	}
}

// A credential that has another value now has it in the next request, on a connection that is there
// already.
func TestInjectRenewed(t *testing.T) {
	if !inside(t) {
		return
	}
	s := newSecured(t, tell)
	client := s.client()
	for _, value := range []shared.Secret{theSecret, theSecret + "renewed"} {
		renewed := slices.Clone(s.inject.Credentials)
		renewed[0].Value = value
		s.inject.Renew(renewed)
		_, got := send(t, client, "GET", "https://api.example/", "", "Authorization: "+thePlaceholder, "X-Api-Key: Key "+thePlaceholder)
		if want := fmt.Sprintf(`HTTP/1.1 api.example|/|[%q]|["Key %s"]|[]|`, string(value), theSecret); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A port without TLS for the name is passed on, and a name without a credential.
func TestInjectElsewhere(t *testing.T) {
	if !inside(t) {
		return
	}
	s := newSecured(t, tell)
	for _, at := range []string{":80", ":8443"} {
		s.serve(public+at, func(c *net.TCPConn) {
			r, err := http.ReadRequest(bufio.NewReader(c))
			if err == nil {
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%s", r.Header["Authorization"])
			}
		})
		if _, got := send(t, s.client(), "GET", "http://api.example"+at+"/", "", "Authorization: Bearer "+thePlaceholder); got != "[Bearer "+thePlaceholder+"]" {
			t.Errorf("%s: %s", at, got)
		}
	}
}

// A redirect leads to another host without the credential.
func TestInjectRedirect(t *testing.T) {
	if !inside(t) {
		return
	}
	s := newSecured(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "api.example" {
			http.Redirect(w, r, "https://other.example/there?"+r.URL.RawQuery, http.StatusTemporaryRedirect)
			return
		}
		tell(w, r)
	})
	client := s.client()
	client.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		r.Header.Set("Authorization", via[0].Header.Get("Authorization")) // as some programs do
		return nil
	}
	if _, got := send(t, client, "GET", "https://api.example/?q", "", "Authorization: Bearer "+thePlaceholder); got != `HTTP/2.0 other.example|/there?q|["Bearer `+thePlaceholder+`"]|[]|[]|` {
		t.Error(got)
	}
}

// What is sent and answered in parts comes in parts, in both directions at once.
func TestInjectStreams(t *testing.T) {
	if !inside(t) {
		return
	}
	s := newSecured(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/socket" {
			if r.Header.Get("Authorization") != "Bearer "+theSecret {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			websocket.Server{Handler: func(c *websocket.Conn) { io.Copy(c, c) }}.ServeHTTP(w, r)
			return
		}
		http.NewResponseController(w).EnableFullDuplex()
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(200)
		http.NewResponseController(w).Flush()
		in, n := bufio.NewReader(r.Body), 0
		for line, err := in.ReadString('\n'); err == nil; line, err = in.ReadString('\n') {
			n += len(line)
			fmt.Fprintf(w, "data: %s\n", line)
			http.NewResponseController(w).Flush()
		}
		w.Header().Set("X-Sum", fmt.Sprint(n))
	})
	body, feed := io.Pipe()
	r, _ := http.NewRequestWithContext(t.Context(), "POST", "https://api.example/events", body)
	answer, err := s.client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	events := bufio.NewReader(answer.Body)
	for i := range 3 { // each is heard before the next is said
		fmt.Fprintf(feed, "part %d\n", i)
		if got, err := events.ReadString('\n'); got != fmt.Sprintf("data: part %d\n", i) || err != nil {
			t.Fatalf("%q, error %v", got, err)
		}
		events.ReadString('\n')
	}
	feed.Close()
	if rest, err := io.ReadAll(events); len(rest) > 0 || err != nil || answer.Trailer.Get("X-Sum") != "21" {
		t.Errorf("%q, %v, %v", rest, err, answer.Trailer)
	}
	answer.Body.Close()
	config, _ := websocket.NewConfig("wss://api.example/socket", "https://api.example")
	config.Header.Set("Authorization", "Bearer "+thePlaceholder)
	socket, err := websocket.NewClient(config, tls.Client(dialName(t, "api.example", 443), &tls.Config{RootCAs: s.inside, ServerName: "api.example"}))
	if err != nil {
		t.Fatal(err)
	}
	var heard string
	if err := websocket.Message.Send(socket, "a frame with "+thePlaceholder); err != nil {
		t.Error(err)
	}
	if err := websocket.Message.Receive(socket, &heard); heard != "a frame with "+thePlaceholder {
		t.Errorf("%q, error %v", heard, err)
	}
	socket.Close()
}

// Large bodies pass in both directions.
func TestInjectLarge(t *testing.T) {
	if !inside(t) {
		return
	}
	size := int64(1 << 30)
	if testing.Short() {
		size = 16 << 20
	}
	s := newSecured(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Got", fmt.Sprint(n))
		io.CopyN(w, zeros{}, size)
	})
	client := s.client()
	client.Timeout = 10 * time.Minute
	r, _ := http.NewRequestWithContext(t.Context(), "PUT", "https://api.example/", io.LimitReader(zeros{}, size))
	r.Header.Set("Expect", "100-continue")
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	if err != nil || n != size || answer.Header.Get("X-Got") != fmt.Sprint(size) {
		t.Errorf("%d bytes of %d, the server got %s, error %v", n, size, answer.Header.Get("X-Got"), err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Whoever wants the credential for another host gets it for none.
func TestInjectHostile(t *testing.T) {
	if !inside(t) {
		return
	}
	s := newSecured(t, tell)
	const auth = "Authorization: Bearer " + thePlaceholder + "\r\n"
	for name, c := range map[string]struct {
		text     string
		statuses string // of all answers, in order
		seen     string // the URIs that the server saw
	}{
		"well-formed":          {"GET /a HTTP/1.1\r\nHost: api.example\r\n" + auth + "\r\nGET /b HTTP/1.1\r\nHost: api.example:443\r\n" + auth, "200 200", "/a /b"},
		"another Host":         {"GET /a HTTP/1.1\r\nHost: other.example\r\n" + auth, "421", ""},
		"another port":         {"GET /a HTTP/1.1\r\nHost: api.example:8443\r\n" + auth, "421", ""},
		"another one later":    {"GET /a HTTP/1.1\r\nHost: api.example\r\n" + auth + "\r\nGET /b HTTP/1.1\r\nHost: other.example\r\n" + auth, "200 421", "/a"},
		"another credential's": {"GET /a HTTP/1.1\r\nHost: elsewhere.example\r\n" + auth, "421", ""},
		"two Hosts":            {"GET /a HTTP/1.1\r\nHost: api.example\r\nHost: other.example\r\n" + auth, "400", ""},
		"no Host":              {"GET /a HTTP/1.1\r\n" + auth, "400", ""},
		"no Host in HTTP/1.0":  {"GET /a HTTP/1.0\r\n" + auth, "421", ""},
		"a Host with more":     {"GET /a HTTP/1.1\r\nHost: api.example@other.example\r\n" + auth, "400", ""},
		"a whole URL":          {"GET https://other.example/a HTTP/1.1\r\nHost: api.example\r\n" + auth, "421", ""},
		"its own whole URL":    {"GET https://api.example/a HTTP/1.1\r\nHost: api.example\r\n" + auth, "421", ""},
		"CONNECT":              {"CONNECT other.example:443 HTTP/1.1\r\nHost: api.example\r\n" + auth, "421", ""},
		"TRACE":                {"TRACE /a HTTP/1.1\r\nHost: api.example\r\n" + auth, "421", ""},
		"a folded header":      {"GET /a HTTP/1.1\r\nHost: api.example\r\n Host: other.example\r\n" + auth, "400", ""},
		"a blank in a name":    {"GET /a HTTP/1.1\r\nHost: api.example\r\nX : y\r\n" + auth, "400", ""},
		"two lengths":          {"POST /a HTTP/1.1\r\nHost: api.example\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", "400", ""},
		"both framings":        {"POST /a HTTP/1.1\r\nHost: api.example\r\nContent-Length: 45\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /b HTTP/1.1\r\nHost: other.example\r\n" + auth, "200 421", "/a"},
		"an odd framing":       {"POST /a HTTP/1.1\r\nHost: api.example\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\nGET /b HTTP/1.1\r\nHost: other.example\r\n" + auth, "501", ""},
		"two framings":         {"POST /a HTTP/1.1\r\nHost: api.example\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\nGET /b HTTP/1.1\r\nHost: other.example\r\n" + auth, "501", ""},
		"its header by hop":    {"GET /a HTTP/1.1\r\nHost: api.example\r\nConnection: Authorization\r\n" + auth, "200", "/a"},
		"not HTTP":             {"\x16\x03\x01\x00\x05hello", "400", ""},
	} {
		before := len(s.requests())
		conn := tls.Client(dialName(t, "api.example", 443), &tls.Config{RootCAs: s.inside, ServerName: "api.example"})
		io.WriteString(conn, c.text+"\r\n")
		in, statuses := bufio.NewReader(conn), ""
		for range len(strings.Fields(c.statuses)) {
			answer, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Errorf("%s: %q and %v", name, statuses, err)
				break
			}
			io.Copy(io.Discard, answer.Body)
			statuses = strings.TrimSpace(fmt.Sprint(statuses, " ", answer.StatusCode))
		}
		conn.Close()
		seen := ""
		for _, r := range s.requests()[before:] {
			if seen = strings.TrimSpace(seen + " " + r.RequestURI); r.Host != "api.example" && r.Host != "api.example:443" {
				t.Errorf("%s: the server was asked for %q", name, r.Host)
			}
		}
		if statuses != c.statuses || seen != c.seen {
			t.Errorf("%s: answers %q, want %q; the server saw %q, want %q", name, statuses, c.statuses, seen, c.seen)
		}
	}
	// Another server name in TLS is refused before there is a request.
	other := tls.Client(dialName(t, "api.example", 443), &tls.Config{ServerName: "other.example", InsecureSkipVerify: true})
	if err := other.Handshake(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("another server name: %v", err)
	}
	for _, why := range []string{"the server name in TLS is other.example", "the HTTP request is for other.example"} {
		s.await(why, func(list []egress.Decision) bool {
			return slices.ContainsFunc(list, func(d egress.Decision) bool { return d.Reason == why && !d.Allowed && d.Target() == "api.example:443" })
		})
	}
}

// The real host has to prove itself before it is sent anything.
func TestInjectUntrusted(t *testing.T) {
	if !inside(t) {
		return
	}
	s := newSecured(t, tell)
	impostor, _ := certified(t, "api.example")
	s.serve(public+":443", func(c *net.TCPConn) {
		in := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{impostor}})
		if n, err := io.Copy(io.Discard, in); n > 0 || err == nil {
			t.Errorf("the impostor got %d bytes, error %v", n, err)
		}
	})
	const why = "certificate signed by unknown authority"
	if status, text := send(t, s.client(), "GET", "https://api.example/", "", "Authorization: Bearer "+thePlaceholder); status != http.StatusBadGateway || !strings.HasPrefix(text, "sbxhost: api.example:443: ") || !strings.Contains(text, why) {
		t.Errorf("%d %q", status, text)
	}
	s.Close()
	if d := s.decision("api.example", 443, true); !strings.Contains(d.Reason, why) {
		t.Errorf("%+v", d)
	}
}

// What is no HTTP is not told, to the command or to the log: a host can have put the credential
// into it, which the world looks for.
func TestInjectNoHTTP(t *testing.T) {
	if !inside(t) {
		return
	}
	for _, answer := range []string{"%s\r\n\r\n", "HTTP/1.1 %s no\r\n\r\n", "HTTP/1.1 200 OK\r\n%s\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: %s\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: %s\r\n\r\n"} {
		s := newSecured(t, func(w http.ResponseWriter, r *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			fmt.Fprintf(c, answer, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		})
		client := s.client()
		status, text := send(t, client, "GET", "https://api.example/", "", "Authorization: Bearer "+thePlaceholder)
		client.CloseIdleConnections() // for which the gate would wait
		if status != http.StatusBadGateway || text != "sbxhost: api.example:443: it gave no valid answer\n" {
			t.Errorf("%q: %d %q", answer, status, text)
		}
		s.Close()
	}
}

// A gate that ends has nothing left of an answer that goes on for ever; see newWorld.
func TestInjectClosed(t *testing.T) {
	if !inside(t) {
		return
	}
	begun := make(chan struct{}, 2)
	s := newSecured(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "begun")
		http.NewResponseController(w).Flush()
		begun <- struct{}{}
		<-r.Context().Done()
	})
	r, _ := http.NewRequestWithContext(t.Context(), "GET", "https://api.example/", nil)
	answer, err := s.client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	defer answer.Body.Close()
	s.Close()
	// The transport of a request that was given up can dial late.
	if _, err := s.Gate.inject.dial(t.Context(), "tcp", "api.example:443"); err != net.ErrClosed {
		t.Error(err)
	}
}
