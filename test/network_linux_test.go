package test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/test/netns"
	"golang.org/x/sys/unix"
)

// netStage says, in a process that TestNetworkByName has started, what it is for.
const netStage = "SBXHOST_TEST_NETWORK"

// netNames are the names that the machine of these tests knows. 93.184.0.0/16 and 10.1.0.0/16
// lead to it, and of them it has 93.184.0.1 and 10.1.0.1 as its own.
const netNames = `127.0.0.1 localhost
93.184.0.10 allowed.example other.example a.wild.example wild.example
93.184.0.11 tools.example
93.184.0.12 github.com api.github.com npm.example
93.184.0.1 own.example own-private.example
10.1.0.7 private.example trusted.example
169.254.169.254 metadata.example
198.18.7.7 fake.example
127.0.0.1 loopback.example
`

// netFiles are what it has in /etc: those names, no nameserver, and the user of its commands,
// whom ssh looks up.
var netFiles = []string{"hosts", "resolv.conf", "passwd"}

// TestNetworkByName runs commands on a machine of its own: a network namespace in which the
// servers, the names and the addresses are the test's.
func TestNetworkByName(t *testing.T) {
	switch os.Getenv(netStage) {
	case "make":
		makeNetwork(t)
		return
	case "run":
		runInNetwork(t)
		return
	case "grpc":
		askHealth(t)
		return
	}
	t.Parallel()
	need(t, "curl", "python3", "bash")
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	build(t, base+"/bin", "cmd/sbxhost")
	passwd := "owner:x:1000:1000::" + base + ":/bin/sh\n"
	if text, err := os.ReadFile("/etc/passwd"); err == nil {
		passwd += string(text)
	}
	for i, text := range []string{netNames, "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n", passwd} {
		name := netFiles[i]
		if err := os.WriteFile(filepath.Join(base, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	netns.Again(t, unix.CLONE_NEWNET|unix.CLONE_NEWNS, 0, netStage+"=make", "B="+base)
}

// makeNetwork is root in namespaces that were made for it.
func makeNetwork(t *testing.T) {
	netns.Loopback(t, netip.MustParsePrefix("93.184.0.1/16"), netip.MustParsePrefix("10.1.0.1/16"))
	base := os.Getenv("B")
	err := os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0)
	err = errors.Join(err, unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""))
	for _, name := range netFiles {
		err = errors.Join(err, unix.Mount(base+"/"+name, "/etc/"+name, "", unix.MS_BIND, ""))
	}
	if bundle, err2 := filepath.EvalSymlinks(trustedFile); err2 == nil {
		// What a test writes to the file in the directory is what this machine trusts.
		err = errors.Join(err, os.WriteFile(base+"/trusted.pem", nil, 0o644), unix.Mount(base+"/trusted.pem", bundle, "", unix.MS_BIND, ""))
	}
	err = errors.Join(err, os.Mkdir(base+"/full", 0o755), unix.Mount("none", base+"/full", "tmpfs", 0, "size=64k,mode=777"))
	if err != nil {
		t.Fatal(err)
	}
	netns.Again(t, 0, 1000, netStage+"=run")
}

// netMachine is the machine with its servers.
type netMachine struct {
	t    *testing.T
	base string
}

func runInNetwork(t *testing.T) {
	m := &netMachine{t, os.Getenv("B")}
	pair, pool := certify(t)
	if err := os.MkdirAll(m.base+"/w", 0o755); err != nil {
		t.Fatal(err)
	}
	m.write("w/ca.pem", string(pool))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n, _ := io.Copy(io.Discard, r.Body); r.URL.Path {
		case "/big":
			w.Write(make([]byte, 20<<20))
		default:
			fmt.Fprintf(w, "%s %s %d\n", r.Proto, r.Host, n)
		}
	})
	for _, at := range []string{"93.184.0.10:80", "93.184.0.1:80", "10.1.0.7:80", "127.0.0.1:80"} {
		go http.Serve(m.listen(at), handler)
	}
	for _, at := range []string{"93.184.0.10:443", "93.184.0.10:8443"} {
		go http.Serve(tls.NewListener(m.listen(at), &tls.Config{Certificates: []tls.Certificate{pair}}), handler)
	}
	for at, says := range map[string]string{"93.184.0.10:5432": "the server", "127.0.0.1:5432": "the host"} {
		go greet(m.listen(at), says)
	}
	m.write("config.hcl", `
audit {
  path = "audit.jsonl"
}
sandbox "net" {
  engine = "native"
  network = [
    "allowed.example", "allowed.example:5432", "*.wild.example:8443",
    "own.example", "private.example", "trusted.example private", "metadata.example private",
    "own-private.example private", "fake.example private", "loopback.example", "absent.example",
  ]
}
sandbox "ports" {
  engine     = "native"
  network    = []
  host_ports = [5432]
  publish    = [3000, "3001:3000"]
}
sandbox "tools" {
  engine     = "native"
  filesystem = "host"
  network    = ["tools.example", "tools.example:22", "tools.example:8443"]
  host_ports = [5433]
}
credential "npm" {
  hosts = ["npm.example"]
  value = "Bearer ${env.NPM_TOKEN}"
}
sandbox "inject" {
  engine             = "native"
  filesystem         = "host"
  network            = ["github.com", "api.github.com", "npm.example", "tools.example"]
  inject_credentials = ["github", "npm"]
}
sandbox "inject-bwrap" {
  engine             = "bwrap"
  network            = ["github.com", "api.github.com", "npm.example", "tools.example"]
  inject_credentials = ["github", "npm"]
}
sandbox "offline" {
  engine     = "native"
  host_ports = [5432]
}
sandbox "bwrap" {
  engine = "bwrap"
  network = [
    "allowed.example", "allowed.example:5432", "*.wild.example:8443",
    "own.example", "private.example", "trusted.example private", "metadata.example private",
    "own-private.example private", "fake.example private", "loopback.example", "absent.example",
  ]
}
`)
	t.Run("tools", func(t *testing.T) { m.tools(t, pair) })
	t.Run("credentials", func(t *testing.T) { m.credentials(t, pair, pool) })
	t.Run("commands", m.commands)
	t.Run("result", m.result)
	t.Run("ports", m.ports)
	t.Run("half-closed", m.halfClosed)
	t.Run("many", m.many)
	t.Run("killed", m.killed)
	t.Run("a full disk", m.fullDisk)
}

func (m *netMachine) write(name, text string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.base, name), []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *netMachine) listen(at string) net.Listener {
	m.t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { l.Close() })
	return l
}

// greet speaks first, as databases and ssh do, and then gives back what it is sent.
func greet(l net.Listener, says string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			fmt.Fprintln(c, says)
			n, _ := io.Copy(io.Discard, c)
			fmt.Fprintln(c, n)
		}()
	}
}

func certify(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "allowed.example"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"allowed.example", "other.example", "a.wild.example", "tools.example", "github.com", "api.github.com", "npm.example"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// sbxhost is a run of it in the workspace.
func (m *netMachine) sbxhost(args ...string) *exec.Cmd {
	cmd := exec.Command(m.base+"/bin/sbxhost", args...)
	cmd.Dir = m.base + "/w"
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + m.base + "/home", "LC_ALL=C", "SBXHOST_CONFIG=" + m.base + "/config.hcl"}
	return cmd
}

func (m *netMachine) run(t *testing.T, sandbox, script string, flags ...string) (out string, code int) {
	t.Helper()
	cmd := m.sbxhost(append(append([]string{"exec", "-sandbox", sandbox}, flags...), "-c", script)...)
	text, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

func (m *netMachine) commands(t *testing.T) {
	const http, https = "curl -sS --max-time 20 http://", "curl -sS --max-time 20 --cacert ca.pem https://"
	const tcp = `tcp() { exec 3<>/dev/tcp/$1/$2 && head -n 1 <&3; }; tcp `
	for name, c := range map[string]struct {
		script string
		code   int // -1 is any but 0
		want   string
		flags  []string
	}{
		"http":                {script: http + "allowed.example/", want: "HTTP/1.1 allowed.example 0\n"},
		"https":               {script: https + "allowed.example/", want: "allowed.example 0\n"},
		"a subdomain":         {script: https + "a.wild.example:8443/", want: "a.wild.example:8443 0\n"},
		"capitals and a dot":  {script: http + "Allowed.EXAMPLE./", want: "HTTP/1.1 Allowed.EXAMPLE. 0\n"},
		"the server first":    {script: tcp + "allowed.example 5432", want: "the server\n"},
		"an upload":           {script: "head -c 3000000 /dev/zero | curl -sS --data-binary @- http://allowed.example/", want: " 3000000\n"},
		"a download":          {script: http + "allowed.example/big | wc -c", want: "20971520\n"},
		"a trusted name":      {script: http + "trusted.example/", want: "trusted.example 0\n"},
		"the machine's":       {script: http + "own-private.example/", want: "own-private.example 0\n"},
		"for this command":    {script: http + "other.example/", want: "other.example 0\n", flags: []string{"-network=other.example,allowed.example:1,2"}},
		"a name":              {script: http + "other.example/", code: 6, want: "hint: refused other.example: no rule allows it; to allow it: add \"other.example\" to network at " + m.base + "/config.hcl:LINE\n"},
		"the wildcard itself": {script: https + "wild.example:8443/", code: 6, want: "refused wild.example: "},
		"another port":        {script: http + "allowed.example:5433/", code: 7},
		"an address":          {script: http + "93.184.0.10/", code: 7},
		"IPv6":                {script: http + "[2606:4700::1]/", code: 7},
		"the host's loopback": {script: http + "127.0.0.1/", code: -1},
		"a fake address":      {script: http + "198.18.1.77/", code: -1},
		"its own address":     {script: http + "own.example/", code: -1, want: "refused own.example"},
		"a private address":   {script: http + "private.example/", code: -1, want: "10.1.0.7 is "},
		"the cloud's":         {script: http + "metadata.example/", code: -1, want: "refused metadata.example"},
		"the resolver's fake": {script: http + "fake.example/", code: -1, want: "refused fake.example"},
		"a loopback":          {script: http + "loopback.example/", code: -1, want: "refused loopback.example"},
		"no such name":        {script: http + "absent.example/", code: -1},
		"another SNI":         {script: "curl -sS -k --connect-to other.example:443:allowed.example:443 https://other.example/", code: -1, want: "refused allowed.example:443"},
		"no TLS":              {script: http + "allowed.example:443/", code: -1, want: "refused allowed.example:443"},
		"another Host":        {script: "curl -sS -H 'Host: other.example' http://allowed.example/", code: -1, want: "refused allowed.example:80"},
		"UDP": {script: `python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try: s.sendto(b"x", ("93.184.0.10", 53))
except OSError as e: print("no:", e.errno)'`, want: "no: 101\n"},
		"the nameserver of the host": {script: `python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("127.0.0.1", 53))
try: s.send(b"x"); s.recv(9)
except OSError as e: print("no:", e.errno)'`, want: "no: 111\n"},
		"the files":       {script: "cat /etc/resolv.conf /etc/hosts", want: "nameserver 198.18.0.1\n127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"},
		"the host's tree": {script: "cat /etc/resolv.conf; " + http + "allowed.example/", want: "nameserver 198.18.0.1\nHTTP/1.1 allowed.example 0\n", flags: []string{"-sandbox", "net"}},
	} {
		for _, sandbox := range []string{"net", "bwrap"} {
			t.Run(sandbox+"/"+name, func(t *testing.T) {
				t.Parallel()
				out, code := m.run(t, sandbox, c.script, c.flags...)
				if want := strings.ReplaceAll(c.want, "LINE", m.line(t, sandbox)); (code != c.code && (c.code >= 0 || code == 0)) || !strings.Contains(out, want) {
					t.Errorf("it ended with %d and %q, want %d and %q", code, out, c.code, want)
				}
			})
		}
	}
}

// line is that of a sandbox's network in the configuration.
func (m *netMachine) line(t *testing.T, sandbox string) string {
	t.Helper()
	text, err := os.ReadFile(m.base + "/config.hcl")
	before, _, found := strings.Cut(string(text), "sandbox \""+sandbox+"\" {\n")
	if err != nil || !found {
		t.Fatalf("sandbox %q: %v", sandbox, err)
	}
	return fmt.Sprint(strings.Count(before, "\n") + 3)
}

type netUse struct {
	Name           string
	Port           uint16
	Allowed        bool
	Reason         string
	Connections    int
	Sent, Received int
}

// uses are what -result has of the network.
func (m *netMachine) uses(t *testing.T, file string) []netUse {
	t.Helper()
	var result struct{ Network []netUse }
	text, err := os.ReadFile(filepath.Join(m.base, file))
	if err == nil {
		err = json.Unmarshal(text, &result)
	}
	if err != nil {
		t.Fatal(err)
	}
	return result.Network
}

// The result and the audit log have each decision, summed up.
func (m *netMachine) result(t *testing.T) {
	m.run(t, "net", `for i in 1 2 3; do curl -sS http://allowed.example/; curl -sS http://other.example/; done; curl -sS http://private.example/`, "-result", m.base+"/result.json")
	lines, err := os.ReadFile(m.base + "/audit.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	all := bytes.Split(bytes.TrimSpace(lines), []byte("\n"))
	var logged struct{ Network []netUse }
	if err := json.Unmarshal(all[len(all)-1], &logged); err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]netUse{m.uses(t, "result.json"), logged.Network} {
		found := map[string]netUse{}
		for _, u := range list {
			found[fmt.Sprintf("%s:%d", u.Name, u.Port)] = u
		}
		if u := found["allowed.example:80"]; !u.Allowed || u.Connections != 3 || u.Sent < 200 || u.Received < 300 {
			t.Errorf("allowed.example: %+v", u)
		}
		if u, ok := found["other.example:0"]; !ok || u.Allowed || u.Reason != "no rule allows it" {
			t.Errorf("other.example: %+v", u)
		}
		if len(list) != 3 {
			t.Errorf("%+v", list)
		}
	}
}

// host_ports and publish lead to the host's loopback and from it.
func (m *netMachine) ports(t *testing.T) {
	for _, sandbox := range []string{"ports", "offline"} {
		if out, code := m.run(t, sandbox, `exec 3<>/dev/tcp/localhost/5432; head -n 1 <&3`); code != 0 || out != "the host\n" {
			t.Errorf("%s: %d, %q", sandbox, code, out)
		}
	}
	if out, code := m.run(t, "offline", "exec 3<>/dev/tcp/localhost/80"); code == 0 {
		t.Errorf("another port of the host: %q", out)
	}
	cmd := m.sbxhost("exec", "-sandbox", "ports", "--", "python3", "-u", "-m", "http.server", "3000")
	var out lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Signal(syscall.SIGTERM)
	for _, port := range []string{"3000", "3001"} {
		deadline := time.Now().Add(time.Minute)
		for {
			// It is there when somebody listens inside; until then it is reset.
			response, err := http.Get("http://127.0.0.1:" + port + "/ca.pem")
			if err == nil {
				text, _ := io.ReadAll(response.Body)
				response.Body.Close()
				if !strings.Contains(string(text), "BEGIN CERTIFICATE") {
					t.Errorf("port %s: %s", port, text)
				}
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("port %s: %v\n%s", port, err, out.String())
			}
		}
	}
	if c, err := net.Dial("tcp", "93.184.0.1:3000"); err == nil {
		c.Close()
		t.Error("a published port listens on all addresses")
	}
	if out, code := m.run(t, "ports", "true"); code != 125 || !strings.Contains(out, "publish[0]") {
		t.Errorf("a port that is taken: %d, %s", code, out)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// One direction ends before the other, and what a command sent in its last moment goes out.
func (m *netMachine) halfClosed(t *testing.T) {
	const client = `python3 -c '
import socket, sys
s = socket.create_connection(("allowed.example", 5432))
s.sendall(b"x" * 1000000)
s.shutdown(socket.SHUT_WR)
print(s.makefile().read())'`
	if out, code := m.run(t, "net", client); code != 0 || !strings.Contains(out, "the server\n1000000\n") {
		t.Errorf("%d, %q", code, out)
	}
	got := make(chan int64, 1)
	l := m.listen("93.184.0.10:5999")
	go func() {
		c, err := l.Accept()
		if err != nil {
			got <- -1
			return
		}
		defer c.Close()
		n, _ := io.Copy(io.Discard, c)
		got <- n
	}()
	if out, code := m.run(t, "net", `exec 3<>/dev/tcp/allowed.example/5999; head -c 300000 /dev/zero >&3`, "-network=allowed.example:5999"); code != 0 {
		t.Fatalf("%d, %s", code, out)
	}
	if n := <-got; n != 300000 {
		t.Errorf("%d bytes arrived", n)
	}
}

// Commands at once do not disturb one another, nor do thousands of connections of one.
func (m *netMachine) many(t *testing.T) {
	commands, connections := 50, 10_000
	if testing.Short() {
		commands, connections = 15, 1_000
	}
	var all sync.WaitGroup
	for range commands {
		all.Go(func() {
			if out, code := m.run(t, "net", "curl -sS http://allowed.example/ && ! curl -sS http://other.example/ 2>/dev/null"); code != 0 {
				t.Errorf("%d, %s", code, out)
			}
		})
	}
	all.Wait()
	// More at once than the gate opens: the rest wait for the first to end.
	const client = `import socket, sys
for _ in range(int(sys.argv[1]) // 500):
    held = [socket.create_connection(("allowed.example", 5432), 60) for _ in range(500)]
    for s in held: assert s.makefile().readline() == "the server\n"; s.close()
print("all")`
	cmd := m.sbxhost("exec", "-sandbox", "net", "-result", m.base+"/many.json", "--", "python3", "-c", client, strconv.Itoa(connections))
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "all\n" {
		t.Errorf("%v, %q", err, out)
	}
	uses := m.uses(t, "many.json")
	if len(uses) != 1 || uses[0].Connections != connections {
		t.Errorf("%+v", uses)
	}
}

// Whoever is killed, connections end on both sides, no port stays taken, and no process stays.
func (m *netMachine) killed(t *testing.T) {
	const host, engine, holder, init, command = 0, 1, 2, 3, 4 // each is a child of the one before
	for name, c := range map[string]struct {
		who    int
		signal syscall.Signal
		status int // of sbxhost, where it is not the one
	}{
		"the host, asked": {host, syscall.SIGTERM, 0},
		"the host":        {host, syscall.SIGKILL, 0},
		"the engine":      {engine, syscall.SIGKILL, 125},
		"the holder":      {holder, syscall.SIGKILL, 125},
		"the init":        {init, syscall.SIGKILL, 125},
		"the command":     {command, syscall.SIGKILL, 128 + 9},
	} {
		t.Run(name, func(t *testing.T) {
			published, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			published.Close()
			l := m.listen("93.184.0.10:0")
			_, port, _ := net.SplitHostPort(l.Addr().String())
			m.write("killed.hcl", fmt.Sprintf("sandbox \"s\" {\n  engine = \"native\"\n  network = [\"allowed.example:%s\"]\n  publish = [\"%s:3000\"]\n}\n", port, published.Addr()))
			cmd := m.sbxhost("exec", "-config", m.base+"/killed.hcl", "-sandbox", "s", "--", "python3", "-c", `import socket, sys
held = [socket.create_connection(("allowed.example", int(sys.argv[1]))) for _ in range(20)]
for s in held: s.sendall(b"x")
while True: held[0].recv(1)`, port)
			var out lockedBuffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			l.(*net.TCPListener).SetDeadline(time.Now().Add(time.Minute))
			var held []net.Conn
			for range 20 {
				c, err := l.Accept()
				if err == nil {
					_, err = io.ReadFull(c, make([]byte, 1))
				}
				if err != nil {
					cmd.Process.Kill()
					t.Fatalf("%v\n%s", err, out.String())
				}
				defer c.Close()
				held = append(held, c)
			}
			line := []int{cmd.Process.Pid}
			for range command {
				line = append(line, onlyChild(t, line[len(line)-1]))
			}
			var all []*os.File
			for _, pid := range line {
				fd, err := unix.PidfdOpen(pid, 0)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, os.NewFile(uintptr(fd), strconv.Itoa(pid)))
			}
			if err := syscall.Kill(line[c.who], c.signal); err != nil {
				t.Fatal(err)
			}
			cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); c.who != host && code != c.status {
				t.Errorf("it ended with %d, want %d: %s", code, c.status, out.String())
			}
			for i, process := range all {
				poll := []unix.PollFd{{Fd: int32(process.Fd()), Events: unix.POLLIN}}
				if n, err := unix.Poll(poll, 60_000); n != 1 {
					t.Errorf("process %d of the line lives on: %v", i, err)
				}
				process.Close()
			}
			for _, c := range held {
				c.SetReadDeadline(time.Now().Add(time.Minute))
				if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("a connection lives on: %v", err)
				}
			}
			until(t, "the published port", func() bool {
				again, err := net.Listen("tcp", published.Addr().String())
				if err == nil {
					again.Close()
				}
				return err == nil
			}, out.String)
		})
	}
}

// onlyChild is the child of a process that has one.
func onlyChild(t *testing.T, pid int) int {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	var children []string
	for _, list := range lists {
		text, _ := os.ReadFile(list) // a thread may have ended
		children = append(children, strings.Fields(string(text))...)
	}
	if len(children) != 1 {
		t.Fatalf("process %d has the children %v", pid, children)
	}
	child, err := strconv.Atoi(children[0])
	if err != nil {
		t.Fatal(err)
	}
	return child
}

// A command's end is told where the log of it does not fit the disk, and no command runs then.
func (m *netMachine) fullDisk(t *testing.T) {
	run := func(log, script string) (string, int) {
		m.write("full.hcl", "audit {\n  path = \"full/"+log+"\"\n}\nsandbox \"s\" {\n  engine  = \"native\"\n  network = [\"allowed.example\"]\n}\n")
		return m.run(t, "s", script, "-config", m.base+"/full.hcl")
	}
	const page = 4096
	fill, err := os.Create(m.base + "/full/fill")
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = fill.Write(make([]byte, page))
	}
	info, statErr := fill.Stat()
	if !errors.Is(err, syscall.ENOSPC) || statErr != nil {
		t.Fatal(err, statErr)
	}
	// A page is left, for the line that a command begins with: its end says more.
	if err := errors.Join(fill.Truncate(info.Size()-page), fill.Close()); err != nil {
		t.Fatal(err)
	}
	out, code := run("one.jsonl", `for i in $(seq 60); do curl -s http://n$i.a-name-that-takes-its-room-in-the-log.example/; done; curl -sS http://allowed.example/; exit 3`)
	if code != 3 || !strings.Contains(out, "HTTP/1.1 allowed.example 0\n") || !strings.Contains(out, "the command's end is not logged: ") || !strings.Contains(out, "no space left on device") {
		t.Errorf("it ended with %d: %s", code, out)
	}
	if out, code := run("two.jsonl", "echo it runs"); code != 125 || !strings.Contains(out, "no space left on device") || strings.Contains(out, "it runs") {
		t.Errorf("on a full disk: %d, %s", code, out)
	}
}
