package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

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
		"a denied name":       {script: https + "b.wild.example:8443/", code: 6, want: "hint: refused b.wild.example: a rule with \"!\" denies it; see network at " + m.base + "/config.hcl:LINE\n"},
		"a denied Host":       {script: "curl -sS -k --connect-to b.wild.example:8443:a.wild.example:8443 https://b.wild.example:8443/", want: "b.wild.example:8443 0\n"},
		"another port":        {script: http + "allowed.example:5433/", code: 7, want: "hint: refused allowed.example:5433: port 5433 is not in the rule; to allow it: add \"allowed.example:5433\" to network at " + m.base + "/config.hcl:LINE\n"},
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
	Name, By       string
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

// A connection to a port that no rule has is refused by the sandbox's kernel, and told like any other.
func (m *netMachine) otherPort(t *testing.T) {
	const quiet = `python3 -c 'import socket, sys
for blocking in (True, False):
    s = socket.socket()
    s.setblocking(blocking)
    try: s.connect((sys.argv[1], int(sys.argv[2])))
    except OSError: pass' `
	out, _ := m.run(t, "net", quiet+"allowed.example 6000; "+quiet+"trusted.example 22; "+quiet+"allowed.example 443; false", "-result", m.base+"/port.json")
	if !strings.Contains(out, "hint: refused allowed.example:6000: port 6000 is not in the rule") || !strings.Contains(out, "hint: refused trusted.example:22: port 22 is not") {
		t.Errorf("%s", out)
	}
	refused := map[string]int{}
	for _, u := range m.uses(t, "port.json") {
		if !u.Allowed && u.Reason == fmt.Sprintf("port %d is not in the rule", u.Port) {
			refused[fmt.Sprintf("%s:%d", u.Name, u.Port)] = u.Connections
		}
	}
	if len(refused) != 2 || refused["allowed.example:6000"] != 1 || refused["trusted.example:22"] != 1 {
		t.Errorf("%v", refused)
	}
	if text, err := os.ReadFile(m.base + "/audit.jsonl"); err != nil || !bytes.Contains(text, []byte(`"name":"trusted.example","port":22,"allowed":false`)) {
		t.Errorf("%v, the log has no refused port", err)
	}
}

// In a kept session each command hears of what was refused while it ran, also of what an earlier one
// has heard, and of what happened since then.
func (m *netMachine) kept(t *testing.T) {
	m.write("kept.hcl", `sandbox "s" {
  engine  = "native"
  network = ["allowed.example"]
  session {
    processes = true
  }
}
`)
	start := func(result, script string) (*exec.Cmd, *lockedBuffer) {
		cmd := m.sbxhost("exec", "-config", m.base+"/kept.hcl", "-sandbox", "s", "-session", "net", "-result", m.base+"/"+result, "-c", script)
		var out lockedBuffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, &out
	}
	defer func() {
		if out, err := m.sbxhost("sessions", "rm", "net").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}()
	const refused = "curl -sS http://other.example/; curl -sS http://allowed.example:6000/; false"
	heard := func(result string) {
		t.Helper()
		found := map[string]bool{}
		for _, u := range m.uses(t, result) {
			if !u.Allowed && u.By == "a command of this session" {
				found[fmt.Sprintf("%s:%d %s", u.Name, u.Port, u.Reason)] = true
			}
		}
		if len(found) != 2 || !found["other.example:0 no rule allows it"] || !found["allowed.example:6000 port 6000 is not in the rule"] {
			t.Errorf("%s: %v", result, m.uses(t, result))
		}
	}
	beside, said := start("beside.json", "echo runs; while ! test -e end; do sleep 0.01; done; rm end; false")
	for deadline := time.Now().Add(time.Minute); !strings.Contains(said.String(), "runs"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(said)
		}
	}
	for _, result := range []string{"kept1.json", "kept2.json"} {
		cmd, out := start(result, refused)
		if cmd.Wait(); !strings.Contains(out.String(), "hint: refused other.example (a command of this session): no rule allows it; to allow it: add \"other.example\" to network") {
			t.Errorf("%s: %s", result, out)
		}
		heard(result)
	}
	m.write("w/end", "")
	if beside.Wait(); !strings.Contains(said.String(), "hint: refused other.example (a command of this session)") {
		t.Errorf("beside: %s", said)
	}
	heard("beside.json")
	// What happens when no command runs is for the next one.
	late, out := start("left.json", "(until test -e begin; do sleep 0.01; done; curl -sS http://later.example/; touch done) >/dev/null 2>&1 &")
	if err := late.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m.write("w/begin", "")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(m.base + "/w/done"); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	next, _ := start("next.json", "true")
	next.Wait()
	if list := m.uses(t, "next.json"); len(list) != 1 || list[0].Name != "later.example" {
		t.Errorf("%v", list)
	}
	again, _ := start("again.json", "true")
	again.Wait()
	if list := m.uses(t, "again.json"); len(list) != 0 {
		t.Errorf("%v", list)
	}
}

// ports tests that host_ports and publish lead to the host's loopback and from it.
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
	if out, code := m.run(t, "ports", "echo ran"); code != 0 || !strings.Contains(out, "ran\n") || !strings.Contains(out, "degraded: publish[0]: another program listens on 127.0.0.1:3000") {
		t.Errorf("a port that is taken: %d, %s", code, out)
	}
	second, err := m.sbxhost("exec", "-sandbox", "ports", "-publish", "3002:3000", "--", "echo", "ran").CombinedOutput()
	if err != nil || string(second) != "ran\n" {
		t.Errorf("another one by a flag: %v, %s", err, second)
	}
}
