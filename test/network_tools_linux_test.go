package test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// tools are programs as people use them. None of them knows that its network is a list.
func (m *netMachine) tools(t *testing.T, pair tls.Certificate) {
	m.serveTools(t, pair)
	for name, c := range map[string]struct {
		programs []string // the first is what script runs; it stands in it as $0
		setup    func(*testing.T)
		script   string
		want     string
	}{
		"git over https": {[]string{"git"}, m.repository, `
export GIT_SSL_CAINFO=$PWD/ca.pem
git clone -q https://tools.example/git/origin.git clone && cd clone &&
git -c user.name=a -c user.email=a@b commit -q --allow-empty -m "from inside" && git push -q origin HEAD:pushed &&
git ls-remote origin pushed`, "refs/heads/pushed\n"},
		"git over ssh": {[]string{"git", "ssh", "ssh-keygen"}, m.ssh, `
export GIT_SSH_COMMAND="ssh -i $PWD/key -o IdentitiesOnly=yes -o UserKnownHostsFile=$PWD/known_hosts -o BatchMode=yes"
git init -q ssh && cd ssh && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m "from inside" &&
git push -q owner@tools.example:ssh.git HEAD:pushed && git ls-remote owner@tools.example:ssh.git`, "refs/heads/pushed\n"},
		"npm": {[]string{"npm", "node"}, nil, `
mkdir npm && cd npm && echo '{}' >package.json &&
npm install --no-audit --no-fund --cafile=../ca.pem --registry=https://tools.example/npm/ hello >&2 && node -p 'require("hello")'`, "hello from npm\n"},
		"pip": {[]string{"python3"}, m.needPip, `
python3 -m pip download -q --disable-pip-version-check --no-deps --cert ca.pem --index-url https://tools.example/pip/ hello && ls *.whl`, "hello-1.0.0-py3-none-any.whl\n"},
		"go": {[]string{"go"}, nil, `
mkdir go && cd go && export GOPROXY=https://tools.example/go GONOSUMDB=* GOTOOLCHAIN=local GOFLAGS=-modcacherw SSL_CERT_FILE=../ca.pem HOME=$PWD GOPATH=$PWD/path &&
printf 'module here\n\nrequire tools.example/hello v1.0.0\n' >go.mod && "$0" mod download && cat path/pkg/mod/tools.example/hello@v1.0.0/hello.go`, "package hello\n"},
		"Node's fetch": {[]string{"node"}, nil, `
NODE_EXTRA_CA_CERTS=ca.pem node -e 'fetch("https://tools.example/").then(r => r.text()).then(console.log)'`, "tools.example\n"},
		"a WebSocket": {[]string{"node"}, nil, `
NODE_EXTRA_CA_CERTS=ca.pem node --experimental-websocket -e '
const s = new WebSocket("wss://tools.example/socket")
s.onopen = () => s.send("a frame")
s.onerror = e => { console.log(e.message); process.exit(1) }
s.onmessage = m => { console.log(m.data); s.close() }'`, "a frame\n"},
		"gRPC": {[]string{"bash"}, m.client, netStage + `=grpc ./client -test.v "-test.run=^TestNetworkByName$"`, "it is SERVING\n"},
		"a JVM": {[]string{"java", "keytool"}, func(*testing.T) {
			m.write("w/Get.java", `public class Get {
    public static void main(String[] args) throws Exception {
        var connection = (java.net.HttpURLConnection) java.net.URI.create("https://tools.example/").toURL().openConnection();
        System.out.print(new String(connection.getInputStream().readAllBytes()));
    }
}
`)
		}, `
keytool -importcert -noprompt -alias test -file ca.pem -keystore trusted.p12 -storetype PKCS12 -storepass secret >&2 &&
java -Djavax.net.ssl.trustStore=trusted.p12 -Djavax.net.ssl.trustStorePassword=secret Get.java`, "tools.example\n"},
		"PostgreSQL": {[]string{"psql"}, m.postgres, `psql -X -h localhost -p 5433 -U owner -d postgres -Atc "select 'row ' || 6 * 7"`, "row 42\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			need(t, c.programs...)
			program, err := exec.LookPath(c.programs[0])
			if err != nil {
				t.Fatal(err)
			}
			if c.setup != nil {
				c.setup(t)
			}
			cmd := m.sbxhost("exec", "-sandbox", "tools", "--", "bash", "-c", c.script, program)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v, %q\n%s", err, out, stderr.String())
			}
		})
	}
}

// serveTools has what the tools ask for at tools.example.
func (m *netMachine) serveTools(t *testing.T, pair tls.Certificate) {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, r.Host) })
	mux.Handle("/socket", websocket.Server{Handler: func(c *websocket.Conn) { io.Copy(c, c) }})
	serve := func(path string, content []byte) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { w.Write(content) })
	}
	if path, err := exec.Command("git", "--exec-path").Output(); err == nil {
		mux.Handle("/git/", &cgi.Handler{Path: strings.TrimSpace(string(path)) + "/git-http-backend", Root: "/git",
			Env: []string{"GIT_PROJECT_ROOT=" + m.base, "GIT_HTTP_EXPORT_ALL=1"}})
	}

	const npm = "https://tools.example/npm/hello-1.0.0.tgz"
	version := map[string]any{"name": "hello", "version": "1.0.0", "dist": map[string]string{"tarball": npm}}
	document, err := json.Marshal(map[string]any{"name": "hello", "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{"1.0.0": version}})
	if err != nil {
		t.Fatal(err)
	}
	serve("/npm/hello", document)
	serve("/npm/hello-1.0.0.tgz", tarball(t, map[string]string{
		"package/package.json": `{"name": "hello", "version": "1.0.0"}`, "package/index.js": `module.exports = "hello from npm"`}))

	const wheel = "hello-1.0.0-py3-none-any.whl"
	serve("/pip/hello/", []byte(`<!DOCTYPE html><html><body><a href="/pip/`+wheel+`">`+wheel+`</a></body></html>`))
	serve("/pip/"+wheel, zipped(t, map[string]string{"hello.py": "", "hello-1.0.0.dist-info/RECORD": "",
		"hello-1.0.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: hello\nVersion: 1.0.0\n",
		"hello-1.0.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}))

	const module, goMod = "/go/tools.example/hello/@v/v1.0.0", "module tools.example/hello\n"
	serve(module+".info", []byte(`{"Version": "v1.0.0"}`))
	serve(module+".mod", []byte(goMod))
	serve(module+".zip", zipped(t, map[string]string{"tools.example/hello@v1.0.0/go.mod": goMod, "tools.example/hello@v1.0.0/hello.go": "package hello\n"}))

	go http.Serve(tls.NewListener(m.listen("93.184.0.11:443"), &tls.Config{Certificates: []tls.Certificate{pair}}), mux)
	server := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	go server.Serve(m.listen("93.184.0.11:8443"))
	m.t.Cleanup(server.Stop)
}

func tarball(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, text)
	}
	w.Close()
	z.Close()
	return b.Bytes()
}

func zipped(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range files {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, text)
	}
	z.Close()
	return b.Bytes()
}

// repository makes the one that git-http-backend serves.
func (m *netMachine) repository(t *testing.T) {
	script := `git init -q --bare origin.git && git -C origin.git config http.receivepack true &&
git init -q first && cd first && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first && git push -q ../origin.git HEAD:main &&
git -C ../origin.git symbolic-ref HEAD refs/heads/main`
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = m.base
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// ssh is a server at tools.example with a repository of its user's. It checks keys, as all do.
func (m *netMachine) ssh(t *testing.T) {
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		sshd = "/usr/sbin/sshd" // which is in no user's PATH
	}
	if _, err := os.Stat(sshd); err != nil {
		if required("sshd") {
			t.Fatalf("SBXHOST_REQUIRE lists sshd: %v", err)
		}
		t.Skip("no sshd here")
	}
	setup := exec.Command("bash", "-c", `set -e
for key in host_key w/key; do ssh-keygen -q -t ed25519 -N '' -f $key; done
echo "tools.example $(cut -d ' ' -f 1,2 host_key.pub)" >w/known_hosts
git init -q --bare ssh.git`)
	setup.Dir = m.base
	if out, err := setup.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m.write("sshd_config", fmt.Sprintf(`ListenAddress 93.184.0.11:22
HostKey %[1]s/host_key
AuthorizedKeysFile %[1]s/w/key.pub
PidFile none
# The directory of tests is everybody's.
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
`, m.base))
	var log lockedBuffer
	server := exec.Command(sshd, "-D", "-e", "-f", m.base+"/sshd_config")
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	until(t, "the ssh server", func() bool { return strings.Contains(log.String(), "Server listening") }, log.String)
}

func (m *netMachine) needPip(t *testing.T) {
	cmd := exec.Command("/usr/bin/env", "python3", "-m", "pip", "--version")
	cmd.Env = m.sbxhost().Env
	if err := cmd.Run(); err != nil {
		if required("pip") {
			t.Fatalf("SBXHOST_REQUIRE lists pip: %v", err)
		}
		t.Skip("no pip here")
	}
}

// client puts this program into the workspace, for [askHealth].
func (m *netMachine) client(t *testing.T) {
	self, err := os.Executable()
	if err == nil {
		err = exec.Command("cp", self, m.base+"/w/client").Run()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// askHealth is a client of gRPC in the sandbox.
func askHealth(t *testing.T) {
	ca, err := os.ReadFile("ca.pem")
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	c, err := grpc.NewClient("tools.example:8443", grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(pool, "")))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answer, err := grpc_health_v1.NewHealthClient(c).Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("it is %s\n", answer.Status)
}

// postgres is a server on the host's loopback.
func (m *netMachine) postgres(t *testing.T) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		if required("postgres") {
			t.Fatal("SBXHOST_REQUIRE lists postgres, which is not in /usr/lib/postgresql")
		}
		t.Skip("no PostgreSQL here")
	}
	data := m.base + "/postgres"
	if out, err := exec.Command(found[0], "-D", data, "-A", "trust", "-U", "owner", "--no-sync", "--locale=C", "-E", "UTF8").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var log lockedBuffer
	server := exec.Command(filepath.Dir(found[0])+"/postgres", "-D", data, "-p", "5433", "-h", "127.0.0.1", "-k", "", "-F")
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Signal(os.Interrupt); server.Wait() })
	until(t, "the database", func() bool { return strings.Contains(log.String(), "ready to accept connections") }, log.String)
}
