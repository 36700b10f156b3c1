package test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/testing/programs"
)

// A failure is a command that fails of its sandbox as people meet it.
type failure struct {
	name string
	// attributes are those of the sandbox; $OUT is the directory outside of the workspace.
	attributes string
	env        []string
	flags      []string
	needs      []string // programs
	script     string
	// attribute is the one of the denial that explains it, and about what its path or host
	// ends in.
	attribute, about string
	// silent says that the command does not tell what it missed: tracing finds it.
	silent bool
	// never says that nothing finds it.
	never bool
}

// failures is the list by which denials are judged. It stays as it is: an explanation that
// fits these alone would be found by changing them.
var failures = []failure{
	{name: "git config", needs: []string{"git"}, script: `git config user.name x`, attribute: "git"},
	{name: "a hook is installed", script: `cp hook .git/hooks/pre-commit`, attribute: "git", about: ".git/hooks/pre-commit"},
	{name: "an editor's tasks", script: `echo x >.vscode/tasks.json`, attribute: "protect_paths_except", about: ".vscode/tasks.json"},
	{name: "npm behind a list", needs: []string{"npm"}, attributes: `network = ["one.example"]`,
		script: `npm view left-pad --registry=https://registry.example/ --fetch-retries=0`, attribute: "network", about: "registry.example"},
	{name: "modules of Go without a network", needs: []string{"go"},
		script: `cd mod && GOPROXY=https://proxy.example GOFLAGS=-mod=mod GONOSUMDB=* HOME=/tmp go build ./...`, attribute: "network", about: "proxy.example"},
	{name: "a name without a network", needs: []string{"curl"}, script: `curl -sS https://registry.example/`, attribute: "network", about: "registry.example"},
	{name: "an address without a network", needs: []string{"curl"}, script: `curl -sS http://192.0.2.7/`, attribute: "network", about: "192.0.2.7:80"},
	{name: "Python without a network", needs: []string{"python3"}, script: `python3 -c 'import urllib.request; urllib.request.urlopen("https://registry.example/")'`, attribute: "network"},
	{name: "a port of the host", needs: []string{"curl"}, script: `curl -sS http://127.0.0.1:$PORT/`, env: []string{"PORT"}, attribute: "host_ports", about: "localhost:$PORT"},
	{name: "a module of Python outside", needs: []string{"python3"}, attributes: `env = { PYTHONPATH = "$OUT/lib" }`, script: `python3 -c 'import ours'`,
		attribute: "bind_paths", about: "$OUT/lib", silent: true},
	{name: "a program of PATH outside", script: `ourtool`, attribute: "bind_paths", about: "$OUT/bin/ourtool"},
	{name: "a program by its path outside", script: `$OUT/bin/ourtool --version`, attribute: "bind_paths", about: "$OUT/bin/ourtool"},
	{name: "a file outside", script: `cat $OUT/data.csv`, attribute: "bind_paths", about: "$OUT/data.csv"},
	{name: "a symlink that leads outside", script: `cat data.csv`, attribute: "bind_paths", about: "$OUT/data.csv"},
	{name: "a header outside", needs: []string{"cc"}, script: `cc -I$OUT/include -c main.c -o /tmp/main.o`, attribute: "bind_paths", about: "$OUT/include", silent: true},
	{name: "a probe that says nothing", script: `test -d $OUT/lib || exit 3`, attribute: "bind_paths", about: "$OUT/lib", silent: false},
	{name: "a cache in the home", script: `ls ~/.cache/tool/index`, attribute: "bind_paths", about: ".cache/tool/index"},
	{name: "a key in the home", script: `cat ~/.ssh/id_test`, about: ".ssh/id_test"},
	{name: "a hidden file", attributes: `deny_paths = ["keys"]`, script: `cat keys/id`, attribute: "deny_paths", about: "keys/id"},
	{name: "a hidden file, quietly", attributes: `deny_paths = ["keys"]`, script: `cd keys 2>/dev/null && cat id 2>/dev/null || exit 4`, attribute: "deny_paths", about: "keys/id", silent: true},
	{name: "the system is not written", script: `touch /etc/made`, about: "/etc/made"},
	{name: "a workspace that is read", attributes: `read_only = true`, script: `touch made`, attribute: "read_only", about: "/made"},
	{name: "strace", needs: []string{"strace"}, script: `strace -o /tmp/out true`, attribute: "config.ptrace"},
	{name: "a namespace", needs: []string{"unshare"}, script: `unshare -U true`, attribute: "config.nested_userns"},
	{name: "a set-id file", script: `cp hook tool && chmod u+s tool`},
	{name: "too many processes", attributes: "limits {\n pids = 16\n enforce = \"best_effort\"\n }", script: `for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do sleep 5 & done; exit 5`, attribute: "limits.pids"},
	{name: "too many open files", needs: []string{"python3"}, attributes: "limits {\n open_files = 40\n enforce = \"best_effort\"\n }", script: `python3 -c 'l = [open("hook") for i in range(60)]'`, attribute: "limits.open_files"},
	{name: "a full /tmp", attributes: "limits {\n temp_size = \"4MiB\"\n }", script: `dd if=/dev/zero of=/tmp/x bs=1M count=8`, attribute: "limits.temp_size"},
	{name: "out of time", attributes: "limits {\n timeout = \"8s\"\n grace = \"50ms\"\n }", script: `sleep 1000`, attribute: "limits.timeout"},
	{name: "a variable of the caller's", script: `: ${OUR_URL:?must be set}`, env: []string{"OUR_URL"}, attribute: "env_passthrough"},
}

// A failurePlace is where such a command runs.
type failurePlace struct {
	base, bin string
	env       []string
	port      string
}

func newFailurePlace(t *testing.T) *failurePlace {
	t.Helper()
	need(t, "git")
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &failurePlace{base: base, bin: filepath.Join(base, "sbx")}
	build(t, p.bin, "cmd/sbxhost")
	for name, text := range map[string]string{
		"out/lib/ours.py": "", "out/bin/ourtool": "#!/bin/sh\n", "out/data.csv": "1\n", "out/include/ours.h": "\n", "home/.cache/tool/index": "", "home/.ssh/id_test": "k",
		"w/hook": "#!/bin/sh\n", "w/main.c": "#include <ours.h>\nint main(void) { return 0; }\n", "w/keys/id": "k", "w/.vscode/settings.json": "{}",
		"w/mod/go.mod": "module here\n\nrequire other.example/x v1.0.0\n", "w/mod/main.go": "package main\n\nimport _ \"other.example/x\"\n\nfunc main() {}\n",
	} {
		name = filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := programs.Write(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(base, "out/data.csv"), filepath.Join(base, "w/data.csv")); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("git", "init", "-q", filepath.Join(base, "w")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	_, p.port, _ = net.SplitHostPort(l.Addr().String())
	p.env = append(os.Environ(), "HOME="+filepath.Join(base, "home"), "PATH="+os.Getenv("PATH")+":"+filepath.Join(base, "out/bin"),
		"XDG_STATE_HOME="+filepath.Join(base, "state"), "XDG_CACHE_HOME="+filepath.Join(base, "cache"), "PORT="+p.port, "OUR_URL=x", "LC_ALL=C")
	return p
}

// denied is one of a result's.
type denied struct {
	Path, Host, Operation, Reason, Attribute, At, Change string
	Guess                                                bool
}

// run runs a script in a sandbox, and gives what was denied.
func (p *failurePlace) run(t *testing.T, name, attributes string, pass []string, script string, flags ...string) (denials []denied, status int, said string) {
	t.Helper()
	expand := strings.NewReplacer("$OUT", filepath.Join(p.base, "out"), "$PORT", p.port)
	config := filepath.Join(p.base, name+".hcl")
	passed := ""
	for _, v := range pass {
		if v == "PORT" {
			passed = "env_passthrough = [\"PORT\"]\n"
		}
	}
	if err := os.WriteFile(config, []byte("workspace {\n  toolchains = true\n}\nsandbox \"s\" {\n"+passed+expand.Replace(attributes)+"\n}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	result := filepath.Join(p.base, name+".json")
	cmd := exec.Command(filepath.Join(p.bin, "sbxhost"), slices.Concat([]string{"exec", "-config", config, "-result", result}, flags, []string{"-c", expand.Replace(script)})...)
	cmd.Dir, cmd.Env = filepath.Join(p.base, "w"), p.env
	out, _ := cmd.CombinedOutput()
	text, err := os.ReadFile(result)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var r struct {
		Status  int
		Outcome string
		Denials []denied
	}
	if err := json.Unmarshal(text, &r); err != nil || r.Outcome == "failed" {
		t.Fatalf("%v: %s\n%s", err, text, out)
	}
	return r.Denials, r.Status, string(out)
}

// explains reports whether one of the first denials is about f.
func (p *failurePlace) explains(f *failure, denials []denied) bool {
	about := strings.NewReplacer("$OUT", filepath.Join(p.base, "out"), "$PORT", p.port).Replace(f.about)
	return slices.ContainsFunc(denials[:min(len(denials), 3)], func(d denied) bool {
		return d.Attribute == f.attribute && (strings.HasSuffix(d.Path, about) || strings.HasSuffix(d.Host, about)) && d.Reason != ""
	})
}

// hints are commands, and what is said of each: the least that lets it, or nothing. Nothing but the
// table, the gate, the trace and an error that the sandbox alone gives says why; a command's words
// say what to look up. $BASE has the workspace w and a directory other; $AT is the definition's line.
var hints = []struct {
	needs, attributes string
	flags             []string
	script, want      string
}{
	{needs: "curl", script: `curl -sS https://one.example`, want: `sandbox "s" has no network, and the command looked for one.example; to allow it: -network=one.example, or network = ["one.example"] at $AT`},
	{needs: "curl", flags: []string{"-trace"}, script: `curl -sS https://one.example`, want: `sandbox "s" has no network, and the command looked for one.example; to allow it: -network=one.example, or network = ["one.example"] at $AT`},
	{needs: "curl", script: `curl -s http://one.example:8080/`, want: `sandbox "s" has no network, and the command looked for one.example; to allow it: -network=one.example:8080, or network = ["one.example:8080"] at $AT`},
	{needs: "curl", flags: []string{"-network=false"}, script: `curl -sS https://one.example`, want: `sandbox "s" has no network, and the command looked for one.example; to allow it: -network=one.example instead`},
	{needs: "curl", flags: []string{"-network=one.example"}, script: `curl -sS https://two.example`, want: `refused two.example: no rule allows it; to allow it: -network=one.example,two.example instead`},
	{needs: "curl", attributes: `network = ["one.example"]`, script: `curl -sS https://two.example`, want: `refused two.example: no rule allows it; to allow it: add "two.example" to network at $AT`},
	{needs: "curl", attributes: `network = ["one.example"]`, script: `curl -sS https://two.example 2>&1 | tail -1`, want: `refused two.example: no rule allows it; to allow it: add "two.example" to network at $AT`},
	{needs: "curl", attributes: `network = ["localhost.localdomain"]`, script: `curl -sS https://$NAME/`, want: `refused $NAME: no rule allows it; see network at $AT`},
	{needs: "curl", attributes: `network = ["$NAME:80"]`, script: `curl -sS http://$NAME/`, want: `refused $NAME: 127.0.0.1 is loopback; to allow it: add "$NAME:80 private" to network at $AT`},
	{needs: "curl", script: `curl -sS http://192.0.2.7/`, want: `sandbox "s" has no network, and the command looked for 192.0.2.7:80; see network at $AT`},
	{needs: "curl", script: `curl -sS http://127.0.0.1:1/`},
	{needs: "npm", script: `cd /tmp && npm install left-pad --registry=https://one.example/ --fetch-retries=0`, want: `sandbox "s" has no network, and the command looked for one.example; to allow it: -network=one.example, or network = ["one.example"] at $AT`},
	{needs: "ssh", script: `git ls-remote git@one.example:x`, want: `sandbox "s" has no network, and the command looked for one.example; to allow it: -network=one.example:22, or network = ["one.example:22"] at $AT`},
	{script: `git fetch ../other`, want: `"$BASE/other" of this machine is not shown in sandbox "s"; to allow it: add "$BASE/other" to bind_paths at $AT`},
	{script: `git fetch $BASE/none`},
	{script: `git clone -q file://$BASE/other /tmp/x`, want: `"$BASE/other" of this machine is not shown in sandbox "s"; to allow it: add "$BASE/other" to bind_paths at $AT`},
	{script: `git push`}, {needs: "npm", script: `cd /tmp && echo '{}' >package.json && npm ci`}, {needs: "gh", script: `gh repo view a/b`},
	{needs: "ssh", script: `ssh -p 2022 one.example`, want: `sandbox "s" has no network, and the command looked for one.example; to allow it: -network=one.example:2022, or network = ["one.example:2022"] at $AT`},
	{needs: "sftp", script: `sftp -P 2022 one.example </dev/null`, want: `sandbox "s" has no network, and the command looked for one.example; to allow it: -network=one.example:2022, or network = ["one.example:2022"] at $AT`},
	{needs: "wget", script: `wget -q ftp://one.example/x`, want: `sandbox "s" has no network, and the command looked for one.example; to allow it: -network=one.example, or network = ["one.example"] at $AT`},
	{needs: "getent", script: `getent hosts one.example`, want: `sandbox "s" has no network, and the command looked for one.example; to allow it: -network=one.example, or network = ["one.example"] at $AT`},
	{needs: "curl", attributes: `network = ["one.example"]`, script: `HTTPS_PROXY=http://two.example:3128 curl -sS https://one.example/`, want: `refused two.example: no rule allows it; to allow it: add "two.example:3128" to network at $AT`},
	{needs: "tmux", script: `tmux -S $BASE/other/sock ls`, want: `"$BASE/other/sock" of this machine is not shown in sandbox "s"; see unix_sockets at $AT`},
	{needs: "unshare", script: `unshare -n true`, want: `sandbox "s" refuses namespaces of the command's own, the first of which must be one of users; to allow it: config { nested_userns = true } at $AT`},
	{script: `cp hook /tmp/x && install -m 4755 hook /tmp/y`, want: `no sandbox lets a command make set-id files, or change the mode of another user's file`},
	{script: `cat /etc/shadow`, want: `"/etc/shadow" of this machine is not shown in sandbox "s": it can contain credentials`},
	{needs: "curl", script: `curl -sS --unix-socket $BASE/other/sock http://x/`, want: `"$BASE/other/sock" of this machine is not shown in sandbox "s"; see unix_sockets at $AT`},
	{needs: "curl", script: `curl -sS --unix-socket $BASE/none http://x/`},
	{needs: "python3", script: `python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("$BASE/other/sock")'; ls $BASE/other/sock`, want: `"$BASE/other/sock" of this machine is not shown in sandbox "s"; see unix_sockets at $AT`},
	{script: `echo 'Failed to connect to bus: Host is down' >&2; false`},
	{needs: "busybox", script: `busybox ping -c1 127.0.0.1`, want: `no command in a sandbox has root's privileges: it cannot mount, change a file's owner or this machine's settings, make devices or set-id files, or open raw sockets`},
	{flags: []string{"-read-only"}, script: `touch x`, want: `"$BASE/w/x" is read-only in sandbox "s" (workspace); to allow it: -read-only=false instead`},
	{attributes: `read_only = true`, script: `touch x`, want: `"$BASE/w/x" is read-only in sandbox "s" (workspace); to allow it: read_only = false at $AT`},
	{script: `mkdir d && chmod 555 d && touch d/x`},
	{script: `echo x >mine && chmod 0 mine && cat mine`},
	{script: `cat .vscode/none`},
	{needs: "strace", script: `strace -o /tmp/out true`, want: `sandbox "s" refuses ptrace(2), by which debuggers and tracers work; to allow it: config { ptrace = true } at $AT`},
	{attributes: "isolation = \"best_effort\"", needs: "unshare", script: `unshare -U true`},
	{needs: "gdb", script: `gdb -batch -ex run -ex 'quit $_exitcode' /bin/true`, want: `no command in a sandbox has root's privileges: it cannot mount, change a file's owner or this machine's settings, make devices or set-id files, or open raw sockets` + "\n" + `sandbox "s" refuses ptrace(2), by which debuggers and tracers work; to allow it: config { ptrace = true } at $AT`},
	{attributes: "config {\n ptrace = true\n }", needs: "unshare", script: `unshare -U true`, want: `sandbox "s" refuses namespaces of the command's own, the first of which must be one of users; to allow it: config { nested_userns = true } at $AT`},
	{needs: "mount", script: `mount -t tmpfs x /tmp`, want: `no command in a sandbox has root's privileges: it cannot mount, change a file's owner or this machine's settings, make devices or set-id files, or open raw sockets`},
	{needs: "mount", script: `mount -t tmpfs x /mnt`, want: `no command in a sandbox has root's privileges: it cannot mount, change a file's owner or this machine's settings, make devices or set-id files, or open raw sockets`},
	{needs: "apt-get", script: `apt-get install -y sl`, want: `packages of the system cannot be installed in sandbox "s": install them outside, or use an image that has them`},
	{needs: "apt-get", script: `apt-get update`, want: `packages of the system cannot be installed in sandbox "s": install them outside, or use an image that has them`},
	{script: `echo x >../made; false`, want: `"$BASE/made" lies beside what sandbox "s" shows of that directory: commands write the workspace, their home and /tmp`},
	{script: `touch ../made`, want: `"$BASE/made" lies beside what sandbox "s" shows of that directory: commands write the workspace, their home and /tmp`},
	{script: `cd keys && touch ../../made`, want: `"$BASE/made" lies beside what sandbox "s" shows of that directory: commands write the workspace, their home and /tmp`},
	{script: `touch ../other/made`, want: `"$BASE/other" of this machine is not shown in sandbox "s"`},
	{script: `git worktree add ../tree`, want: `"$BASE/tree/.git" lies beside what sandbox "s" shows of that directory: commands write the workspace, their home and /tmp`},
	{script: `mkdir .zed`, want: `"$BASE/w/.zed" is read-only in sandbox "s" (protected: by default, .zed); do it outside of the sandbox, or to allow it: add ".zed" to protect_paths_except at $AT`},
	{script: `mkdir .vscode`},
	{attributes: `deny_paths = ["keys/id"]`, script: `mkdir /tmp/copy && cp -r . /tmp/copy`, want: `"$BASE/w/keys/id" is hidden in sandbox "s" (deny_paths "keys/id"): a device node is in its place, which cannot be copied; see deny_paths at $AT`},
	{script: `mv .git moved`, want: `"$BASE/w/.git" cannot be renamed or removed in sandbox "s" because of a path in it (protected: git branches); do it outside of the sandbox, or to allow it: git = "full" at $AT`},
	{script: `git config user.name x`, want: `"$BASE/w/.git/config" is read-only in sandbox "s" (protected: git config); do it outside of the sandbox, or to allow it: git = "full" at $AT`},
	{script: `git config --get none.such`},
	{script: `git add none`},
	{needs: "node", script: `node -e 'require("http").createServer().listen(80)'`, want: `no command in a sandbox listens on a port below 1024: use another, and publish leads there from a port of this machine`},
	{attributes: "limits {\n pids = 20\n enforce = \"best_effort\"\n }", flags: []string{"-timeout=20s"}, script: `for i in $(seq 30); do sleep 60 & done; wait`,
		want: `sandbox "s" has limits.pids, which the command seems to have reached; to allow it: limits { pids = 40 } at $AT`},
	{attributes: "limits {\n temp_size = \"4MiB\"\n }", script: `echo "cp: error writing 'big': No space left on device" >&2; echo "$(pwd)/big: No space left on device" >&2; false`},
	{script: `ls /none; cat /none/x`},
	{script: `exit 3`},
	{script: `true`},
}

func TestHintsAskForTheLeast(t *testing.T) {
	t.Parallel()
	p := newFailurePlace(t)
	other := filepath.Join(p.base, "other")
	if out, err := exec.Command("sh", "-c", "git init -q "+other+" && cd "+filepath.Join(p.base, "w")+" && git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m x").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l, err := net.Listen("unix", filepath.Join(other, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	name, _ := os.Hostname()
	for i, h := range hints {
		t.Run(h.script, func(t *testing.T) {
			for _, program := range strings.Fields(h.needs) {
				need(t, program)
			}
			if strings.Contains(h.script, "$NAME") {
				if addrs, err := net.LookupHost(name); err != nil || !slices.Equal(addrs, []string{"127.0.0.1"}) {
					t.Skip("this machine's name does not lead to 127.0.0.1 alone")
				}
			}
			expand := strings.NewReplacer("$BASE", p.base, "$NAME", name)
			_, status, out := p.run(t, fmt.Sprint("h", i), expand.Replace(h.attributes), nil, expand.Replace(h.script), h.flags...)
			if (status == 0) != (h.script == "true" || strings.Contains(h.script, "| tail")) {
				t.Errorf("status %d", status)
			}
			var got []string
			for line := range strings.Lines(out) {
				if hint, ok := strings.CutPrefix(line, "sbxhost: hint: "); ok {
					if at := strings.LastIndex(hint, " at "+p.base); at >= 0 {
						hint = hint[:at] + " at $AT"
					}
					got = append(got, strings.TrimSpace(hint))
				}
			}
			if got := strings.Join(got, "\n"); got != expand.Replace(h.want) {
				t.Errorf("got  %s\nwant %s\n%s", got, expand.Replace(h.want), out)
			}
		})
	}
}

func TestFailuresAreExplained(t *testing.T) {
	t.Parallel()
	p := newFailurePlace(t)
	if len(failures) != 30 {
		t.Fatalf("%d failures", len(failures))
	}
	for i, f := range failures {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			need(t, f.needs...)
			denials, status, out := p.run(t, fmt.Sprint("c", i), f.attributes, f.env, f.script, f.flags...)
			if status == 0 {
				t.Errorf("it has not failed:\n%s", out)
			}
			found := p.explains(&f, denials)
			if want := !f.silent && !f.never; found != want {
				t.Errorf("explained: %v, want %v; %+v\n%s", found, want, denials, out)
			}
			if found && !strings.Contains(out, "sbxhost: ") {
				t.Errorf("nothing is told:\n%s", out)
			}
			denials, _, out = p.run(t, fmt.Sprint("c", i), f.attributes, f.env, f.script, append(f.flags, "-trace")...)
			// Of a directory that cannot be entered, the file in it is never tried.
			if want := !f.never && f.name != "a hidden file, quietly"; p.explains(&f, denials) != want {
				t.Errorf("explained by a trace: %v, want %v; %+v\n%s", !want, want, denials, out)
			}
		})
	}
}

// successes are commands of every day. That they look for what is nowhere, or not for them, is
// a part of their work.
var successes = []struct{ needs, script string }{
	{"git", "git status"}, {"git", "git diff"}, {"git", "git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m x && git log"},
	{"git", "git add hook && git stash list && git ls-files && git reset -q"},
	{"cc", "echo 'int main(void) { return 0; }' >/tmp/a.c && cc -o /tmp/a /tmp/a.c && /tmp/a"}, {"cc", "echo '#include <stdio.h>' | cc -E - >/tmp/out"},
	{"python3", "python3 -c 'import json, os, ssl, subprocess; subprocess.run([\"true\"], check=True)'"}, {"python3", "echo {} | python3 -m json.tool"},
	{"node", "node -e 'require(\"fs\").readdirSync(\".\")'"}, {"npm", "cd /tmp && echo '{\"scripts\": {\"test\": \"true\"}}' >package.json && npm test"},
	{"make", "printf 'all: x\\nx:\\n\\ttouch x\\n' >/tmp/Makefile && make -C /tmp"},
	{"go", "mkdir /tmp/m && cd /tmp/m && printf 'package main\\nfunc main() {}\\n' >main.go && GOFLAGS=-mod=mod go mod init m && go build -o m . && ./m"},
	{"tar", "tar -cf /tmp/x.tar . && tar -tf /tmp/x.tar"}, {"find", "find . -type f | sort"}, {"grep", "grep -r main . | wc -l"},
	{"sed", "cp main.c /tmp/c && sed -i s/main/start/ /tmp/c"}, {"gzip", "gzip -c main.c | gzip -d | cmp - main.c"}, {"perl", "perl -MFile::Find -e 'find(sub {}, \".\")'"},
	{"sh", "for i in 1 2 3; do mkdir -p /tmp/d/$i && mv /tmp/d/$i /tmp/d/x$i; done; rm -r /tmp/d"}, {"ls", "ls -la ~ . /usr /etc >/tmp/out; test -s /tmp/out"},
	{"awk", "awk 'BEGIN { print 1 }' | tee made && rm made"},
}

// After a command that succeeded nothing is told, and of a traced one only what it does not have.
func TestSuccessesAreExplainedByATraceAlone(t *testing.T) {
	t.Parallel()
	p := newFailurePlace(t)
	if len(successes) < 20 {
		t.Fatalf("%d commands", len(successes))
	}
	// What is compiled, go need not compile here once more, and once more traced.
	if out, err := exec.Command("go", "env", "GOCACHE").Output(); err == nil {
		p.env = append(p.env, "GOCACHE="+strings.TrimSpace(string(out)))
	}
	for i, c := range successes {
		t.Run(c.script, func(t *testing.T) { // one by one: they write one workspace
			need(t, c.needs)
			denials, status, out := p.run(t, fmt.Sprint("s", i), "", nil, c.script)
			if status != 0 || len(denials) > 0 {
				t.Fatalf("status %d, %+v\n%s", status, denials, out)
			}
			denials, status, out = p.run(t, fmt.Sprint("s", i), "", nil, c.script, "-trace")
			if status != 0 {
				t.Fatalf("traced, it ends with %d:\n%s", status, out)
			}
			for _, d := range denials {
				if d.Attribute == "network" && d.Host != "" {
					continue // that it has none is certain
				}
				has := "! test -e '" + d.Path + "'"
				if d.Operation == "write" {
					has = "! test -w '" + d.Path + "'"
				}
				if _, status, _ := p.run(t, fmt.Sprint("s", i), "", nil, has); d.Path == "" || status != 0 {
					t.Errorf("it has what it is said not to have: %+v", d)
				}
			}
		})
	}
}
