package docker

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/egress"
	"github.com/sbxhost/sbxhost/shared"
)

// ownName is the machine's own name with its address, which needs no other machine.
func ownName(t *testing.T) (name, address string) {
	t.Helper()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	addr, err := net.ResolveTCPAddr("tcp4", name+":0")
	if err != nil {
		t.Fatalf("the machine's own name has no address: %v", err)
	}
	if _, err := egress.ParseRule(name); err != nil {
		t.Fatal(err)
	}
	return strings.ToLower(name), addr.IP.String()
}

// serveAt serves HTTP, or HTTPS, at an address.
func serveAt(t *testing.T, address string, secure bool, h http.Handler) (port string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.Listener.Close()
	if s.Listener = l; secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

// hostPrograms shows the host's programs, of which the test image has none.
func hostPrograms(t *testing.T) []shared.Entry {
	t.Helper()
	for _, name := range []string{"curl", "git"} {
		if _, err := exec.LookPath("/usr/bin/" + name); err != nil {
			t.Fatalf("%s is needed: %v", name, err)
		}
	}
	list := []shared.Entry{{Source: "/usr", Path: "/usr", Access: shared.ReadOnly, Why: "programs"}}
	for _, dir := range []string{"/lib", "/lib64"} {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			list = append(list, shared.Entry{Source: real, Path: dir, Access: shared.ReadOnly, Why: "programs"})
		}
	}
	return list
}

func TestNamesByProxy(t *testing.T) {
	t.Parallel()
	name, address := ownName(t)
	repository := t.TempDir()
	for _, words := range [][]string{{"init", "-q", "--bare", "r.git"}, {"-C", "r.git", "update-server-info"}} {
		cmd := exec.Command("/usr/bin/git", words...)
		cmd.Dir = repository
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	files := http.FileServer(http.Dir(repository))
	answer := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/r.git/") {
			files.ServeHTTP(rw, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(rw, "%s%s:%d\n", r.Host, r.URL, len(body))
	})
	plain, secure := serveAt(t, address+":0", false, answer), serveAt(t, address+":0", true, answer)
	silent := serveAt(t, address+":0", false, answer) // no rule has this one
	s := open(t, shared.Spec{Options: rawOptions(t, opts{}), Table: hostPrograms(t), Home: "/home/me",
		Network: shared.Network{Mode: shared.NetworkNames, Names: []string{name + ":" + plain + "," + secure + " private"}}})
	for _, tt := range []struct{ script, want string }{
		{"curl -sS http://NAME:PLAIN/x?y", "NAME:PLAIN/x?y:0"},
		{"curl -sSk https://NAME:SECURE/", "NAME:SECURE/:0"},
		{"curl -sSk --proxy $ALL_PROXY https://NAME:SECURE/", "NAME:SECURE/:0"},
		{"curl -sS --proxy $ALL_PROXY http://NAME:PLAIN/", "NAME:PLAIN/:0"},
		{"head -c 300000 /dev/zero | curl -sSk -T - https://NAME:SECURE/up http://NAME:PLAIN/up", "NAME:SECURE/up:300000\nNAME:PLAIN/up:0"},
		{"git -c http.sslVerify=false clone -q https://NAME:SECURE/r.git ~/r && cat ~/r/.git/HEAD", "ref: refs/heads/master"},
		{"for i in 1 2 3 4 5 6 7 8; do curl -sSk https://NAME:SECURE/ & done; wait", strings.TrimSpace(strings.Repeat("NAME:SECURE/:0\n", 8))},
		{"curl -s -o /dev/null -w '%{http_code}' http://other.example/", "403"},
		{"curl -s -o /dev/null -w '%{http_connect}' https://other.example/", "403"},
		{"NO_PROXY= no_proxy= curl -s -o /dev/null -w '%{http_code}' http://ADDRESS:PLAIN/", "403"},
		{"NO_PROXY= no_proxy= curl -s -o /dev/null -w '%{http_connect}' https://ADDRESS:SECURE/", "403"},
		{"curl -s -o /dev/null -w '%{http_code}' http://NAME:SILENT/", "403"},
		{"curl -s --noproxy '*' http://ADDRESS:PLAIN/; echo $?", "7"},
		{"curl -s --noproxy '*' http://NAME:PLAIN/ || echo not reached", "not reached"},
		{"ip route; ip -o link | grep -vc ' lo:'; nslookup NAME 127.0.0.11 >/dev/null 2>&1 || nslookup NAME 8.8.8.8 >/dev/null 2>&1 || echo no names", "0\nno names"},
		{"/usr/bin/bash -c 'echo x >/dev/udp/192.0.2.1/53' 2>&1 | grep -o 'Network is unreachable' | head -1", "Network is unreachable"},
		{"env | grep -ic _proxy=; echo $NO_PROXY", "9\nlocalhost,127.0.0.1,::1"},
	} {
		fill := strings.NewReplacer("NAME", name, "PLAIN", plain, "SECURE", secure, "SILENT", silent, "ADDRESS", address).Replace
		cmd := script(fill(tt.script))
		cmd.Env = []string{"PATH=/bin:/usr/bin", "HOME=/home/me", "HTTP_PROXY=http://elsewhere.example"}
		if out := runCommand(t, s, cmd, ""); strings.TrimSpace(out.stdout) != fill(tt.want) {
			t.Errorf("%s: %q, %s", fill(tt.script), out.stdout, out.stderr)
		}
	}
	cmd := script(strings.NewReplacer("NAME", name, "PLAIN", plain).Replace("curl -sS http://NAME:PLAIN/; curl -s http://other.example/; curl -s http://192.0.2.7/"))
	cmd.Env = []string{"PATH=/bin:/usr/bin"}
	out := runCommand(t, s, cmd, "")
	for _, want := range []egress.Decision{{Name: name, Allowed: true}, {Name: "other.example", Port: 80}, {Name: "192.0.2.7", Port: 80}} {
		if !slices.ContainsFunc(out.events, func(e shared.Event) bool {
			d := egress.ParseDecision(e.Details)
			return e.Kind == shared.EventNetwork && d.Name == want.Name && d.Allowed == want.Allowed && (want.Port == 0 || d.Port == want.Port)
		}) {
			t.Errorf("no event tells of %s: %v", want.Name, out.events)
		}
	}
}

// A server that is asked for by its name must be spoken to by its name.
func TestOtherServerName(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // who may not listen on port 443: what decides is the gate's, and root's daemon has tried it
	}
	name, address := ownName(t)
	serveAt(t, address+":443", true, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, "reached") }))
	s := open(t, shared.Spec{Table: hostPrograms(t), Network: shared.Network{Mode: shared.NetworkNames, Names: []string{name + " private"}}})
	for as, want := range map[string]string{name: "reached0", "other.example": "35"} {
		cmd := script(fmt.Sprintf("curl -sk --connect-to %s:443:%s:443 https://%s/; echo $?", as, name, as))
		cmd.Env = []string{"PATH=/bin:/usr/bin"}
		out := runCommand(t, s, cmd, "")
		if strings.TrimSpace(out.stdout) != want {
			t.Errorf("%s: %q, %s", as, out.stdout, out.stderr)
		}
		if refused := slices.ContainsFunc(out.events, func(e shared.Event) bool {
			return e.Kind == shared.EventNetwork && e.Details["reason"] == "the server name in TLS is other.example"
		}); refused != (as != name) {
			t.Errorf("%s: %v", as, out.events)
		}
	}
}

func TestPorts(t *testing.T) {
	t.Parallel()
	_, port, _ := net.SplitHostPort("127.0.0.1:" + serveAt(t, "127.0.0.1:0", false, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, "the host's") })))
	var number uint16
	fmt.Sscan(port, &number)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	published := free.Addr().String()
	free.Close()
	s := open(t, shared.Spec{Options: rawOptions(t, opts{}), Network: shared.Network{HostPorts: []uint16{number, 81}, Publish: []string{published + ":3000"}}})
	out := sh(t, s, "wget -q -O - http://127.0.0.1:"+port+"/; echo; wget -q -O - http://127.0.0.1:1/ 2>&1; for port in 81 82; do nc 127.0.0.1 $port </dev/null 2>&1 | grep -c refused; done; env | grep -ic proxy")
	if out.stdout != "the host's\nwget: can't connect to remote host (127.0.0.1): Connection refused\n0\n1\n0\n" {
		t.Errorf("%q, %s", out.stdout, out.stderr)
	}
	var asked sync.WaitGroup
	asked.Go(func() {
		for range 1200 {
			c, err := net.Dial("tcp", published)
			if err == nil {
				got, _ := io.ReadAll(c)
				c.Close()
				if string(got) == "from inside\n" {
					return
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Error("nobody answers at the published port")
	})
	if out := sh(t, s, "echo from inside | nc -l -p 3000 >/dev/null"); !out.Status.Success() {
		t.Errorf("%+v", out)
	}
	asked.Wait()
}
