package gate

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/egress"
	"github.com/sbxhost/sbxhost/shared"
)

// Whatever a header says: the credential is in it only where the placeholder was, and a value
// without one stays as it is.
func FuzzPut(f *testing.F) {
	const placeholder, secret = "sbxhost.TOKEN.placeholder", "a-secret-that-nothing-else-has"
	for _, s := range []string{"", "Bearer " + placeholder, placeholder + placeholder, "Basic", "Basic  " + base64.StdEncoding.EncodeToString([]byte("x:"+placeholder)),
		"BASIC eDp5", "Basic " + placeholder, "basic eDp5\x00=", "Digest username=\"" + placeholder + "\""} {
		f.Add(s)
	}
	c := shared.Credential{Placeholder: placeholder, Value: secret}
	f.Fuzz(func(t *testing.T, value string) {
		got := put(&c, value)
		readable := func(s string) string {
			if scheme, encoded, ok := strings.Cut(s, " "); ok && strings.EqualFold(scheme, "Basic") {
				text, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
				return string(text)
			}
			return s
		}
		if strings.Contains(value, secret) || strings.Contains(readable(value), secret) {
			return // it is the command's own word
		}
		if has := strings.Contains(readable(got), secret) || strings.Contains(got, secret); has != (got != value) {
			t.Errorf("%q became %q", value, got)
		} else if has && !strings.Contains(readable(value), placeholder) {
			t.Errorf("%q became %q without a placeholder", value, got)
		}
	})
}

// A request that goes on names the host of its connection, in each place that could name one.
func FuzzMisdirected(f *testing.F) {
	for _, s := range []string{"GET / HTTP/1.1\r\nHost: api.example\r\n\r\n", "GET https://other.example/ HTTP/1.1\r\nHost: api.example\r\n\r\n", "GET //other.example HTTP/1.1\r\nHost: API.example.:443\r\n\r\n",
		"CONNECT api.example:443 HTTP/1.1\r\nHost: api.example\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: api.example\r\n\r\n", "GET / HTTP/1.1\r\nHost: api.example:443:443\r\n\r\n", "GET http:other HTTP/1.1\r\nHost: api.example\r\n\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
		if err != nil {
			return
		}
		r.TLS = &tls.ConnectionState{ServerName: "api.example"}
		if misdirected(r, "api.example") != "" {
			return
		}
		name, ok := egress.Canonical(strings.TrimSuffix(r.Host, ":443"))
		if !ok || name != "api.example" || r.URL.IsAbs() || r.URL.Host != "" || r.Method == "CONNECT" || r.Method == "TRACE" {
			t.Errorf("%q for %q goes on", r.RequestURI, r.Host)
		}
	})
}
