package test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// trustedFile is what this machine trusts, as Debian has it.
const trustedFile = "/etc/ssl/certs/ca-certificates.crt"

const (
	injectedGitHub = "ghp_canaryThatStaysOutside0123456789"
	injectedNPM    = "npm_canaryThatStaysOutsideToo456789"
)

// serveInjected are servers that know who asks: github.com, its API, and a registry.
func (m *netMachine) serveInjected(t *testing.T, pair tls.Certificate) {
	backend, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	git := &cgi.Handler{Path: strings.TrimSpace(string(backend)) + "/git-http-backend",
		Env: []string{"GIT_PROJECT_ROOT=" + m.base + "/private", "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=a"}}
	const npm = "https://npm.example/hello-1.0.0.tgz"
	version := map[string]any{"name": "hello", "version": "1.0.0", "dist": map[string]string{"tarball": npm}}
	document, err := json.Marshal(map[string]any{"name": "hello", "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{"1.0.0": version}})
	if err != nil {
		t.Fatal(err)
	}
	tarball := tarball(t, map[string]string{"package/package.json": `{"name": "hello", "version": "1.0.0"}`, "package/index.js": `module.exports = "hello from npm"`})
	server := &http.Server{TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(strings.TrimPrefix(r.Header.Get("Authorization"), "token "), "Bearer ")
		if user, password, ok := r.BasicAuth(); ok && user == "x-access-token" {
			token = password
		}
		switch {
		case r.Host == "npm.example" && token != injectedNPM, r.Host != "npm.example" && token != injectedGitHub:
			w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
			w.WriteHeader(http.StatusUnauthorized)
		case r.Host == "github.com":
			git.ServeHTTP(w, r)
		case r.URL.Path == "/user":
			fmt.Fprintf(w, `{"login": "%s", "proto": "%s"}`, "octocat", r.Proto)
		case r.URL.Path == "/hello":
			w.Write(document)
		case r.URL.Path == "/hello-1.0.0.tgz":
			w.Write(tarball)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})}
	go server.ServeTLS(m.listen("93.184.0.12:443"), "", "")
	t.Cleanup(func() { server.Close() })
}

// credentials has programs use credentials that they never get.
func (m *netMachine) credentials(t *testing.T, pair tls.Certificate, pool []byte) {
	need(t, "git", "curl", "openssl")
	if _, err := os.Stat(trustedFile); err != nil {
		t.Fatal(err)
	}
	m.write("trusted.pem", string(pool))
	setup := exec.Command("bash", "-c", `git init -q --bare private/origin.git && git -C private/origin.git config http.receivepack true &&
git init -q begin && cd begin && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first && git push -q ../private/origin.git HEAD:main &&
git -C ../private/origin.git symbolic-ref HEAD refs/heads/main`)
	setup.Dir = m.base
	if out, err := setup.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m.serveInjected(t, pair)
	tokens := []string{"GH_TOKEN=" + injectedGitHub, "NPM_TOKEN=" + injectedNPM}
	runWith := func(tokens []string, args ...string) (out, stderr string, err error) {
		cmd := m.sbxhost(args...)
		cmd.Env = append(append(cmd.Env, "SBXHOST_LOG=trace"), tokens...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		text, err := cmd.Output()
		for what, text := range map[string]string{"stdout": string(text), "stderr": errs.String()} {
			if at := tells(text); at != "" {
				t.Errorf("%q: %s has %s in it", args, what, at)
			}
		}
		return string(text), errs.String(), err
	}
	run := func(args ...string) (out, stderr string, err error) { return runWith(tokens, args...) }
	for _, sandbox := range []string{"inject", "inject-bwrap"} {
		for name, c := range map[string]struct {
			program, script, want string
		}{
			"curl":            {"curl", `curl -sS --http1.1 -H "Authorization: Bearer $GH_TOKEN" https://api.github.com/user`, `"login": "octocat"`},
			"curl and HTTP/2": {"curl", `curl -sS --http2 -w ' %{http_version}' -H "Authorization: token $GH_TOKEN" https://api.github.com/user`, `"HTTP/1.1"} 1.1`},
			"without":         {"curl", `curl -sS -o /dev/null -w '%{http_code}' https://api.github.com/user`, "401"},
			"another header":  {"curl", `curl -sS -o /dev/null -w '%{http_code}' -H "X-Token: Bearer $GH_TOKEN" https://api.github.com/user`, "401"},
			"another token":   {"curl", `curl -sS -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $NPM_TOKEN" https://api.github.com/user`, "401"},
			"another host":    {"curl", `curl -sS -o /dev/null -w '%{http_code}' --connect-to npm.example:443:github.com:443 -H "Authorization: Bearer $GH_TOKEN" https://npm.example/user; true`, "000"},
			"who has issued it": {"openssl", `openssl s_client -connect api.github.com:443 -servername api.github.com -verify_return_error </dev/null 2>&1 | grep -E "issuer|Verif"; true`,
				"sandbox, for one session"},
			"git": {"git", `rm -rf /tmp/c && git clone -q https://github.com/origin.git /tmp/c && cd /tmp/c &&
git -c user.name=a -c user.email=a@b commit -q --allow-empty -m inside && git push -q origin HEAD:` + sandbox + ` && git ls-remote origin ` + sandbox, "refs/heads/" + sandbox},
			"gh":                {"gh", `gh api user --jq .login`, "octocat"},
			"npm":               {"npm", `mkdir /tmp/n && cd /tmp/n && echo '{}' >package.json && echo "//npm.example/:_authToken=\${NPM_TOKEN}" >.npmrc && npm install --no-audit --no-fund --registry=https://npm.example/ hello >&2 && node -p 'require("hello")'`, "hello from npm"},
			"everything inside": {"env", `env; cat /proc/self/environ /proc/1/cmdline; cat ` + trustedFile, "GH_TOKEN=sbxhost.GH_TOKEN.placeholder"},
		} {
			t.Run(sandbox+" "+name, func(t *testing.T) {
				need(t, c.program)
				result := filepath.Join(m.base, "inject.json")
				out, stderr, err := run("exec", "-sandbox", sandbox, "-result", result, "-c", c.script)
				if err != nil || !strings.Contains(out, c.want) {
					t.Errorf("%v, %q, want %q\n%s", err, out, c.want, stderr)
				}
				text, err := os.ReadFile(result)
				if at := tells(string(text)); err != nil || at != "" {
					t.Errorf("%v, -result has %s in it", err, at)
				}
			})
		}
		for _, args := range [][]string{{"-json"}, {"-v"}, {}} {
			out, stderr, err := run(append(append([]string{"explain", "-sandbox", sandbox}, args...), "--", "true")...)
			if err != nil || !strings.Contains(out, "credentials") {
				t.Errorf("explain %q: %v, %q\n%s", args, err, out, stderr)
			}
		}
	}
	// Renewed ones, in a session that goes on: who runs there already has them, too.
	const ask = `curl -sS -o /dev/null -w '%{http_code} ' -H "Authorization: Bearer $NPM_TOKEN" https://npm.example/hello; curl -sS -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $GH_TOKEN" https://api.github.com/user`
	for _, c := range []struct {
		what         string
		tokens       []string
		script, want string
	}{
		{"expired", []string{"GH_TOKEN=ghp_expired", "NPM_TOKEN=npm_expired"}, `mkfifo /tmp/ask /tmp/told; (read line </tmp/ask; { ` + ask + `; } >/tmp/told 2>/dev/null) </dev/null >/dev/null 2>&1 & ` + ask, "401 401"},
		{"renewed", tokens, ask + "; echo; echo >/tmp/ask; cat /tmp/told", "200 200\n200 200"},
		{"not set", nil, ask, "200 200"},
	} {
		out, stderr, err := runWith(c.tokens, "exec", "-sandbox", "inject", "-session", "renewed", "-keep", "-c", c.script)
		if err != nil || out != c.want {
			t.Errorf("%s: %v, %q, want %q\n%s", c.what, err, out, c.want, stderr)
		}
	}
	if out, stderr, err := run("sessions", "rm", "renewed"); err != nil {
		t.Errorf("%v, %s\n%s", err, out, stderr)
	}
	t.Run("a hoarder", m.hoarder)
	// Not by another variable, either.
	if out, _, err := run("exec", "-sandbox", "inject", "-env", "COPY="+injectedNPM, "--", "true"); err == nil {
		t.Errorf("a variable with a credential was passed on: %s", out)
	}
	// Nothing that was written has them, and the certificates are gone.
	filepath.WalkDir(m.base, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || strings.HasPrefix(path, m.base+"/bin") || path == m.base+"/w/client" {
			return nil // programs, of which one is these tests
		}
		text, err := os.ReadFile(path)
		if at := tells(string(text)); at != "" {
			t.Errorf("%s has %s in it", path, at)
		}
		if bytes.Contains(text, []byte("BEGIN PRIVATE KEY")) {
			t.Errorf("%s is a key", path)
		}
		if filepath.Base(filepath.Dir(path)) == "git" && bytes.HasPrefix(text, pool) && err == nil {
			t.Errorf("%s was left", path)
		}
		return nil
	})
}

// hoarder is a client that makes host and engine hold as much as it can: by connections that take
// nothing of what they are sent, each with a header that is almost too long, and by names that are
// refused.
const hoarder = `import os, socket, ssl, sys
print("begun", flush=True)
held = []
if sys.argv[1] == "fill":
    head = b"GET /user HTTP/1.1\r\nHost: api.github.com\r\nAuthorization: Bearer " + os.environ["GH_TOKEN"].encode() + b"\r\n" + b"C: c\r\n" * 2000 + b"\r\n"
    for connection in range(100):
        s = ssl.create_default_context().wrap_socket(socket.create_connection(("api.github.com", 443)), server_hostname="api.github.com")
        s.sendall(head)
        s.recv(1)
        held.append(s)
    for i in range(3000):
        try: socket.getaddrinfo("%d." % i + "x" * 60 + ".example", 80)
        except OSError: pass
print("filled", flush=True)
sys.stdin.read()
`

// What a command makes host and engine hold is bounded, whatever it does, and by a limit of its memory more so.
func (m *netMachine) hoarder(t *testing.T) {
	m.write("w/hoarder.py", hoarder)
	text, err := os.ReadFile(m.base + "/config.hcl")
	if err != nil {
		t.Fatal(err)
	}
	m.write("hoarder.hcl", strings.Replace(string(text), "sandbox \"inject\" {", "sandbox \"limited\" {\n  limits {\n    memory  = \"256MiB\"\n    enforce = \"best_effort\"\n  }", 1))
	// peaks are what host and engine had at the most, in KiB.
	peaks := func(what string) (peaks [2]int) {
		cmd := m.sbxhost("exec", "-config", m.base+"/hoarder.hcl", "-sandbox", "limited", "--", "python3", "hoarder.py", what)
		cmd.Env = append(cmd.Env, "GH_TOKEN="+injectedGitHub, "NPM_TOKEN="+injectedNPM)
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer stdin.Close()
		var out lockedBuffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		until(t, what, func() bool { return strings.Contains(out.String(), "filled\n") }, out.String)
		for i, pid := range [2]int{cmd.Process.Pid, onlyChild(t, cmd.Process.Pid)} {
			_, peak, _ := strings.Cut(procFile(pid, "status"), "\nVmHWM:")
			fmt.Sscanf(peak, "%d kB", &peaks[i])
		}
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", what, err, out.String())
		}
		return peaks
	}
	idle, filled := peaks("nothing"), peaks("fill")
	host, engine := (filled[0]-idle[0])>>10, (filled[1]-idle[1])>>10
	// A quarter of the limit in use, and as much again until Go's collector has run.
	if engine > 128 || host > 8 {
		t.Errorf("the host has grown by %d MiB and the engine by %d", host, engine)
	}
}

// tells names a credential that a text has in it, also as Basic authentication has it.
func tells(text string) string {
	for name, secret := range map[string]string{"the token for GitHub": injectedGitHub, "the token for npm": injectedNPM, "half a token": injectedGitHub[8:20], "an encoded token": "Z2hwX2NhbmFyeVRoYXRTdGF5"} {
		if strings.Contains(text, secret) {
			return name
		}
	}
	return ""
}
