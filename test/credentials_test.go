//go:build linux

package test

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Canaries: secrets that must be nowhere but in the command's environment.
const (
	canaryToken = "ghp_canary0123456789TOKENabcdef"
	canaryOther = "canary-of-a-variable-nobody-passes"
)

// encodedCanary is what git sends of the token.
var encodedCanary = base64.StdEncoding.EncodeToString([]byte("x-access-token:" + canaryToken))

// gitServer serves the repositories below dir over https to those who bring the
// token, as a GitHub server does, and gives its URL and its certificate.
func gitServer(t *testing.T, dir string) (url string, certificate []byte) {
	t.Helper()
	backend := gitBackend(t, dir)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user != "x-access-token" || password != canaryToken {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = nil
	if server.TLS.MinVersion > tls.VersionTLS12 {
		t.Fatal("the test server speaks no TLS that git may")
	}
	return server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// gitBackend serves the repositories below dir to everybody.
func gitBackend(t *testing.T, dir string) http.Handler {
	t.Helper()
	execPath, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	return &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(execPath)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
}

func TestCredentials(t *testing.T) {
	need(t, "bwrap", "git")
	bin := t.TempDir()
	build(t, bin, "cmd/sbxhost")
	p := newPlace(t, bin)

	repositories := t.TempDir()
	git := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(p.env(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git(repositories, "init", "-q", "-b", "main", "work")
	git(filepath.Join(repositories, "work"), "commit", "-q", "--allow-empty", "-m", "first")
	git(repositories, "clone", "-q", "--bare", "work", "private.git")
	url, certificate := gitServer(t, repositories)
	if err := os.WriteFile(filepath.Join(p.project, "ca.pem"), certificate, 0o644); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(p.home, "c.hcl")
	text := fmt.Sprintf(`credential "github" {
  pass = true
}

sandbox "with" {
  engine      = "native"
  network     = true
  credentials = ["github"]
  env         = { GIT_SSL_CAINFO = "%[1]s/ca.pem", GIT_TERMINAL_PROMPT = "0" }
}

sandbox "without" {
  engine  = "native"
  network = true
  env     = { GIT_SSL_CAINFO = "%[1]s/ca.pem", GIT_TERMINAL_PROMPT = "0" }
}

sandbox "conflict" {
  engine      = "native"
  credentials = ["github"]
  env         = { GIT_CONFIG_COUNT = "0" }
}

sandbox "agent" {
  engine      = "native"
  credentials = ["ssh-agent"]
}
`, p.project)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	// sbxhost runs the program with the canaries in its environment and looks for
	// them in all that it says.
	sbxhost := func(extra []string, args ...string) (string, int) {
		t.Helper()
		cmd := exec.Command(filepath.Join(bin, "sbxhost"), args...)
		cmd.Dir = p.project
		cmd.Env = append(p.env(), "GITHUB_SERVER_URL="+url, "OTHER="+canaryOther, "SBXHOST_LOG=trace")
		cmd.Env = append(cmd.Env, extra...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		_ = cmd.Run()
		for _, secret := range []string{canaryToken, encodedCanary, canaryOther} {
			if strings.Contains(out.String(), secret) {
				t.Errorf("sbxhost %v says a secret:\n%s", args, out.String())
			}
		}
		return out.String(), cmd.ProcessState.ExitCode()
	}
	token := []string{"GITHUB_TOKEN=" + canaryToken}

	t.Run("git clone", func(t *testing.T) {
		result := filepath.Join(p.home, "result.json")
		out, status := sbxhost(token, "exec", "-config", config, "-sandbox", "with", "-result", result, "--", "git", "clone", "-q", url+"/private.git", "cloned")
		if status != 0 {
			t.Fatalf("status %d\n%s", status, out)
		}
		if _, err := os.Stat(filepath.Join(p.project, "cloned", ".git", "HEAD")); err != nil {
			t.Error(err)
		}
		for _, file := range append(filesBelow(t, p.project), append(filesBelow(t, p.home), result)...) {
			data, err := os.ReadFile(file)
			if err == nil && (bytes.Contains(data, []byte(canaryToken)) || bytes.Contains(data, []byte(encodedCanary))) {
				t.Errorf("%s holds the token", file)
			}
		}
		out, status = sbxhost(token, "exec", "-config", config, "-sandbox", "without", "--", "git", "clone", "-q", url+"/private.git", "again")
		if status == 0 {
			t.Errorf("the server gives the repository to everybody\n%s", out)
		}
	})
	t.Run("no other server gets it", func(t *testing.T) {
		// One to which the server leads a client that has authenticated, or has not
		// yet, and which asks for nothing and waits what comes.
		var mu sync.Mutex
		var met []string
		backend := gitBackend(t, repositories)
		other := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			met = append(met, r.Method+" "+r.Header.Get("Authorization"))
			mu.Unlock()
			backend.ServeHTTP(w, r)
		}))
		t.Cleanup(other.Close)
		for _, when := range []string{"before", "after"} {
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, password, _ := r.BasicAuth(); when == "after" && password != canaryToken {
					w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				http.Redirect(w, r, other.URL+r.URL.RequestURI(), http.StatusMovedPermanently)
			}))
			t.Cleanup(server.Close)
			sbxhost(append(token, "GITHUB_SERVER_URL="+server.URL), "exec", "-config", config, "-sandbox", "with", "-env", "GIT_SSL_NO_VERIFY=1", "--",
				"git", "clone", "-q", server.URL+"/private.git", "redirected-"+when)
		}
		mu.Lock()
		defer mu.Unlock()
		if !slices.ContainsFunc(met, func(m string) bool { return strings.HasPrefix(m, "POST") }) {
			t.Errorf("the control fails: git went no further than %q", met)
		}
		for _, m := range met {
			if strings.Contains(m, "Basic") {
				t.Errorf("the other server gets the token: %q", met)
			}
		}
	})
	t.Run("a helper of the user's is not told it", func(t *testing.T) {
		kept := filepath.Join(p.project, "kept")
		settings := filepath.Join(p.project, "gitconfig")
		if err := os.WriteFile(settings, []byte("[credential]\n\thelper = store --file="+kept+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		out, status := sbxhost(token, "exec", "-config", config, "-sandbox", "with", "-env", "GIT_CONFIG_GLOBAL="+settings, "--", "git", "clone", "-q", url+"/private.git", "kept-clone")
		if status != 0 {
			t.Fatalf("status %d\n%s", status, out)
		}
		if data, err := os.ReadFile(kept); err == nil {
			t.Errorf("a helper has written %q", data)
		}
	})
	t.Run("no argument holds it", func(t *testing.T) {
		// Every process that there is while the command runs, as root sees it.
		script := `for f in /proc/[0-9]*/cmdline; do tr '\0' ' ' <"$f"; echo; done 2>/dev/null`
		inside, _ := sbxhost(token, "exec", "-config", config, "-sandbox", "with", "--", "sh", "-c", script)
		if !strings.Contains(inside, "sh -c") {
			t.Errorf("the control fails: no command line is seen\n%s", inside)
		}
		// Nor any environment but those of sbxhost and the command, nor any file: the
		// session's, the audit log's, what engine and holder keep beside them.
		held := canaryToken + rand.Text() // another run of this test on the machine holds another
		auditLog := filepath.Join(p.home, "audit.jsonl")
		hold := exec.Command(filepath.Join(bin, "sbxhost"), "exec", "-config", config, "-sandbox", "with", "-session", "canary", "--", "sh", "-c", `echo "${#GITHUB_TOKEN}"; read x`)
		hold.Dir = p.project
		hold.Env = append(p.env(), "GITHUB_SERVER_URL="+url, "GITHUB_TOKEN="+held, "SBXHOST_AUDIT="+auditLog)
		stdin, err := hold.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := hold.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := hold.Start(); err != nil {
			t.Fatal(err)
		}
		var count int // by the shell itself: of a program, a dying one would be met below
		if _, err := fmt.Fscan(stdout, &count); err != nil || count != len(held) {
			t.Errorf("the command has a token of %d bytes, error %v", count, err)
		}
		lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if data, err := os.ReadFile(line); err == nil && (bytes.Contains(data, []byte(canaryToken)) || bytes.Contains(data, []byte(encodedCanary))) {
				t.Errorf("%s holds the token: %q", line, data)
			}
		}
		environs, err := filepath.Glob("/proc/[0-9]*/environ")
		if err != nil {
			t.Fatal(err)
		}
		var holders []string
		for _, environ := range environs {
			if data, err := os.ReadFile(environ); err == nil && bytes.Contains(data, []byte(held)) {
				name, _ := os.ReadFile(filepath.Join(filepath.Dir(environ), "comm"))
				holders = append(holders, strings.TrimSpace(string(name)))
			}
		}
		if slices.Sort(holders); !slices.Equal(holders, []string{"sbxhost", "sh"}) {
			t.Errorf("the token is in the environments of %q", holders)
		}
		private, err := filepath.Glob("/tmp/sbxhost-*")
		if err != nil {
			t.Fatal(err)
		}
		files := append(filesBelow(t, p.home), filesBelow(t, p.project)...)
		for _, dir := range private {
			filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					files = append(files, path)
				}
				return nil
			})
		}
		for _, file := range files {
			if data, err := os.ReadFile(file); err == nil && bytes.Contains(data, []byte(held)) {
				t.Errorf("%s holds the token", file)
			}
		}
		if data, err := os.ReadFile(auditLog); err != nil || !bytes.Contains(data, []byte("GITHUB_TOKEN")) {
			t.Errorf("the control fails: the log is %q, error %v", data, err)
		}
		stdin.Close()
		_ = hold.Wait() // read fails at the end of its input
	})
	t.Run("explain", func(t *testing.T) {
		for _, args := range [][]string{{"explain"}, {"explain", "-v"}, {"explain", "-json"}} {
			out, status := sbxhost(token, append(args, "-config", config, "-sandbox", "with", "--", "env")...)
			if status != 0 || !strings.Contains(out, "GITHUB_TOKEN") || !strings.Contains(out, "GIT_CONFIG_VALUE_0") || !strings.Contains(out, "credentials") {
				t.Errorf("%v: status %d\n%s", args, status, out)
			}
		}
	})
	t.Run("errors", func(t *testing.T) {
		for _, c := range []struct {
			extra []string
			args  []string
			want  string
		}{
			{token, []string{"-sandbox", "conflict", "--", "true"}, "GIT_CONFIG_COUNT is what credentials"},
			{token, []string{"-sandbox", "with", "-env", "GIT_CONFIG_KEY_0=http.extraHeader", "--", "true"}, "GIT_CONFIG_KEY_0 is what credentials"},
			{append(token, "GITHUB_SERVER_URL=http://plain.example"), []string{"-sandbox", "with", "--", "true"}, "not of the form https://HOST"},
			{nil, []string{"-sandbox", "with", "--", "true"}, "neither GH_TOKEN nor GITHUB_TOKEN is set"},
			{token, []string{"-sandbox", "with", "--", "/no/such/program"}, "no/such/program"},
			{append(token, "SSH_AUTH_SOCK=/nowhere/agent"), []string{"-sandbox", "agent", "--", "true"}, "SSH_AUTH_SOCK"},
			{append(token, "SSH_AUTH_SOCK="+config), []string{"-sandbox", "agent", "--", "true"}, "is not a socket"},
		} {
			out, _ := sbxhost(c.extra, append([]string{"exec", "-config", config}, c.args...)...)
			if !strings.Contains(out, c.want) {
				t.Errorf("%v: want %q in\n%s", c.args, c.want, out)
			}
		}
	})
	t.Run("ssh-agent", func(t *testing.T) {
		need(t, "ssh-agent", "ssh-add", "ssh-keygen")
		dir, err := os.MkdirTemp("/tmp", "sbx-agent-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		socket := filepath.Join(dir, "agent")
		agent := exec.Command("ssh-agent", "-D", "-a", socket)
		if err := agent.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = agent.Process.Kill(); _ = agent.Wait() })
		until(t, "the agent", func() bool { // which may have a socket and not listen yet
			conn, err := net.Dial("unix", socket)
			if err == nil {
				conn.Close()
			}
			return err == nil
		}, func() string { return "" })
		key := filepath.Join(dir, "key")
		for _, cmd := range []*exec.Cmd{exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "planted", "-f", key), exec.Command("ssh-add", "-q", key)} {
			cmd.Env = append(p.env(), "SSH_AUTH_SOCK="+socket)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", cmd, err, out)
			}
		}
		agentEnv := []string{"SSH_AUTH_SOCK=" + socket}
		out, status := sbxhost(agentEnv, "exec", "-config", config, "-sandbox", "agent", "--", "sh", "-c", "ssh-add -l && ! test -e "+key)
		if status != 0 || !strings.Contains(out, "planted") {
			t.Errorf("status %d\n%s", status, out)
		}
		// In the workspace sockets are hidden; this one was asked for.
		near := filepath.Join(p.project, "s")
		if err := os.Link(socket, near); err != nil { // another file system
			if err := os.Symlink(socket, near); err != nil {
				t.Fatal(err)
			}
		}
		out, status = sbxhost([]string{"SSH_AUTH_SOCK=" + near}, "exec", "-config", config, "-sandbox", "agent", "--", "ssh-add", "-l")
		if status != 0 || !strings.Contains(out, "planted") {
			t.Errorf("in the workspace: status %d\n%s", status, out)
		}
		if out, status := sbxhost(agentEnv, "exec", "-config", config, "-sandbox", "without", "--", "ssh-add", "-l"); status == 0 {
			t.Errorf("an agent is there that nobody passed:\n%s", out)
		}
	})
}

func filesBelow(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return nil
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, error %v", dir, len(files), err)
	}
	return files
}
