package test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
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
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/testing/netns"
)

// netStage says, in a process that TestNetworkByName has started, what it is for.
const netStage = "SBXHOST_TEST_NETWORK"

// netNames are the names that the machine of these tests knows. 93.184.0.0/16 and 10.1.0.0/16
// lead to it, and of them it has 93.184.0.1 and 10.1.0.1 as its own.
const netNames = `127.0.0.1 localhost
93.184.0.10 allowed.example other.example a.wild.example b.wild.example wild.example
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
	if os.Geteuid() == 0 {
		file := base + "/others/any.conf"
		if err := errors.Join(os.Mkdir(base+"/others", 0o755), os.WriteFile(file, []byte("Host any\n"), 0o644), os.Chown(file, ownerUID, ownerUID)); err != nil {
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
	const included = "/etc/ssh/ssh_config.d"
	if _, err2 := os.Stat(included); err2 == nil {
		// ssh refuses what belongs to nobody, as all of root's does to the user's commands. Here that is what
		// belongs to another than who has started the test.
		others := "/etc/ld.so.conf.d" // whose names end in .conf, too
		if _, err2 := os.Stat(base + "/others"); err2 == nil {
			others = base + "/others"
		}
		err = errors.Join(err, unix.Mount(others, included, "", unix.MS_BIND, ""))
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
	if err := errors.Join(os.MkdirAll(m.base+"/w", 0o755), os.MkdirAll(m.base+"/home", 0o755)); err != nil {
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
    "allowed.example", "allowed.example:5432", "*.wild.example:8443", "!b.wild.example",
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
  credentials = ["github", "npm"]
}
sandbox "inject-bwrap" {
  engine             = "bwrap"
  network            = ["github.com", "api.github.com", "npm.example", "tools.example"]
  credentials = ["github", "npm"]
}
sandbox "offline" {
  engine     = "native"
  host_ports = [5432]
}
sandbox "bwrap" {
  engine = "bwrap"
  network = [
    "allowed.example", "allowed.example:5432", "*.wild.example:8443", "!b.wild.example",
    "own.example", "private.example", "trusted.example private", "metadata.example private",
    "own-private.example private", "fake.example private", "loopback.example", "absent.example",
  ]
}
`)
	t.Run("tools", func(t *testing.T) { m.tools(t, pair) })
	t.Run("credentials", func(t *testing.T) { m.credentials(t, pair, pool) })
	t.Run("commands", m.commands)
	t.Run("result", m.result)
	t.Run("another port", m.otherPort)
	t.Run("kept", m.kept)
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
		DNSNames: []string{"allowed.example", "other.example", "a.wild.example", "b.wild.example", "tools.example", "github.com", "api.github.com", "npm.example"}}
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
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + m.base + "/home", "XDG_RUNTIME_DIR=" + m.base, "LC_ALL=C", "SBXHOST_CONFIG=" + m.base + "/config.hcl"}
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
