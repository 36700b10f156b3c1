package denial

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/audit"
	"github.com/sbxhost/sbxhost/internal/egress"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// machine is one of which everything is told.
type machine struct {
	files    map[string]view.Kind
	links    map[string]string
	programs map[string]string
	dropped  string
	ports    []uint16
	vars     []string
	withheld map[string]string
	// interpreters are those of scripts.
	interpreters map[string]string
}

func (m *machine) Follow(p string) view.Way {
	if to := m.links[p]; to != "" {
		return view.Way{End: to, Links: []string{p}, Kind: m.files[to]}
	}
	return view.Way{End: p, Kind: m.files[p]}
}
func (m *machine) Program(name string) string     { return m.programs[name] }
func (m *machine) Interpreter(p string) string    { return m.interpreters[p] }
func (m *machine) Dropped(string) string          { return m.dropped }
func (m *machine) Listens(port uint16) bool       { return slices.Contains(m.ports, port) }
func (m *machine) Variable(name string) bool      { return slices.Contains(m.vars, name) }
func (m *machine) Stub(p string) bool             { return p == "/src/p/.vscode" }
func (m *machine) WhyNotProposed(p string) string { return m.withheld[p] }

func someMachine() *machine {
	return &machine{
		files: map[string]view.Kind{
			"/data/set.csv": view.File, "/src/p/in.txt": view.File, "/tmp/x": view.File, "/var/lib/dpkg/lock-frontend": view.File, "/var/lib/app/lock": view.File, "/etc/R/Rprofile.site": view.File, "/etc/R/ldpaths": view.File, "/home/me/.ssh/id": view.File, "/usr/share": view.Directory,
			"/data": view.Directory, "/tools/bin/x": view.File, "/srv/lib": view.Directory, "/src/p/.env": view.File, "/workspace/keys/id": view.File, "/run/app.sock": view.Socket, "/away/file": view.File,
		},
		links:    map[string]string{"/src/p/link": "/away/file", "/src/p/key": "/workspace/keys/id", "/usr/lib/R/etc/Rprofile.site": "/etc/R/Rprofile.site", "/usr/lib/R/etc/ldpaths": "/etc/R/ldpaths"},
		programs: map[string]string{"mytool": "/tools/bin/mytool", "/tools/bin/x": "/tools/bin/x", "sh": "/usr/bin/sh"},
		ports:    []uint16{5432}, vars: []string{"API_URL"},
		withheld:     map[string]string{"/home/me/.ssh/id": "it can contain credentials"},
		interpreters: map[string]string{"/src/p/in.txt": "/tools/bin/x", "/src/p/.env": "/tools/bin/x"},
	}
}

func someSpec() *shared.Spec {
	return &shared.Spec{Home: "/home/me", Table: []shared.Entry{
		{Source: "/src/tools", Path: "/data/deep/tools", Access: shared.ReadOnly, Why: "bind_paths[0]"},
		{Source: "/src/p", Path: "/workspace", Access: shared.ReadWrite, Why: "workspace"},
		{Path: "/data", Missing: shared.MissingIgnore, Why: view.OriginParent},
		{Path: "/workspace/.env", Missing: shared.MissingIgnore, Why: view.OriginSensitive + `, a hard link of "x"`},
		{Path: "/workspace/keys", Missing: shared.MissingHold, Why: `deny_paths "keys"`},
		{Source: "/src/p/.git/config", Path: "/workspace/.git/config", Access: shared.ReadOnly, Why: "protected: git config"},
		{Path: "/workspace/deep/id", Missing: shared.MissingIgnore, Why: `deny_paths "**/id"`},
		{Source: "/src/p/.git/worktrees/other", Path: "/workspace/.git/worktrees/other", Access: shared.ReadOnly, Why: "protected: git worktrees/other"},
		{Source: "/src/p/a.code-workspace", Path: "/workspace/a.code-workspace", Access: shared.ReadOnly, Why: "protected: by default, *.code-workspace"},
		{Source: "/src/p/.vscode", Path: "/workspace/.vscode", Access: shared.ReadOnly, Missing: shared.MissingHold, Why: "protected: by default, .vscode"},
	}}
}

// told is a denial as one line.
func told(d *Denial) string {
	line := strings.TrimSpace(fmt.Sprintf("%s %s%s", d.Operation, d.Path, d.Host))
	if d.Attribute != "" {
		line += " by " + d.Attribute
	}
	if change := d.Change; change != "" {
		line += ": " + change
	}
	if d.Guess {
		line += "?"
	}
	return line
}

func check(t *testing.T, name string, f *Failure, want []string) {
	t.Helper()
	f.Sandbox = "fast"
	if f.Spec == nil {
		f.Spec = someSpec()
	}
	if f.Machine == nil {
		f.Machine = someMachine()
	}
	f.Option = func(name string) bool { return name != "none" }
	var got []string
	list := f.Denials()
	for i := range list {
		if got = append(got, told(&list[i])); !strings.Contains(list[i].Reason, "fast") && list[i].Reason == "" {
			t.Errorf("%s: a denial without a reason: %+v", name, list[i])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", name, got, want)
	}
}

// What programs obey in a home, no hint proposes to open; nor what gives credentials.
func TestProtectedInHome(t *testing.T) {
	t.Parallel()
	m := someMachine()
	m.withheld["/src/home/.claude"] = "it can contain credentials"
	spec := &shared.Spec{Table: []shared.Entry{{Source: "/src/home", Path: "/h", Access: shared.ReadWrite, Why: "bind_paths[0]"}}}
	for _, name := range []string{".ssh", ".bashrc", ".gitconfig", ".config/systemd", ".claude", ".vscode"} {
		spec.Table = append(spec.Table, shared.Entry{Source: "/src/home/" + name, Path: "/h/" + name, Access: shared.ReadOnly, Why: "protected: by default, " + name})
	}
	for p, want := range map[string]string{
		".ssh/config": "?", ".bashrc": "?", ".gitconfig": "?", ".config/systemd/x": "?", ".claude/x": "?",
		".vscode/x": ` by protect_paths_except: add ".vscode" to protect_paths_except?`,
	} {
		check(t, p, &Failure{Spec: spec, Machine: m, Command: shared.Command{Args: []string{"x"}, Dir: "/h"},
			Stderr: []byte("touch: cannot touch '" + p + "': Read-only file system")}, []string{"write /h/" + p + want})
	}
	check(t, "above", &Failure{Spec: spec, Machine: m, Command: shared.Command{Args: []string{"x"}, Dir: "/h"},
		Stderr: []byte("mv: cannot move '.config' to 'x': Device or resource busy")}, []string{"write /h/.config?"})
}

// What the arguments of a command name, and its output does not.
func TestWords(t *testing.T) {
	t.Parallel()
	named := []string{`connect example.com by network: network = ["example.com"]?`}
	shown := func(p string) string { return fmt.Sprintf("read %s by bind_paths: add %q to bind_paths?", p, p) }
	for _, tt := range []struct {
		args, script string
		on           bool // a network
		want         []string
	}{
		{args: "curl https://example.com", want: named},
		{args: "/usr/bin/curl https://example.com", want: named},
		{args: "curl https://example.com", on: true},
		{args: "curl http://localhost:3000/x"}, {args: "curl -sS 127.0.0.1:3000"}, {args: "curl http://[::1]:3000"},
		{args: "curl http://example.com:8080/x", want: []string{`connect example.com by network: network = ["example.com:8080"]?`}},
		{args: "curl --unix-socket /var/run/none.sock http://x/"}, {args: "curl http://192.0.2.1/"},
		{args: "git fetch /data", want: nil}, {args: "git fetch /data/set.csv", want: []string{shown("/data/set.csv")}},
		{script: "cd keys && cat id", want: []string{"read /workspace/keys/id by deny_paths?"}}, {script: "cd \"$X\" && cat keys/id"}, {script: "(cd x; true); cat keys/id"},
		{args: "mount /data/set.csv /mnt"},
		{args: "npm test"}, {args: "npm ci"},
		{script: "if ! CI=1 curl -s example.com; then exit 1; fi", want: named},
		{script: "echo \"use curl\" # curl"},
		{script: "out=$(curl -s example.com/x.json)", want: named}, {args: "curl -s localhost:3000/x.json"},
		{args: "sh -c"},
		{args: "cat /data/set.csv", want: []string{shown("/data/set.csv")}},
		{args: "tool --in=/data/set.csv", want: []string{shown("/data/set.csv")}},
		{args: "cat ../data/set.csv", want: []string{shown("/data/set.csv")}},
		{args: "cat /home/me/.ssh/id /data/set.csv", want: []string{"read /home/me/.ssh/id?"}},
		{args: "cat .env", want: []string{"read /workspace/.env by approvals.mode?"}},
		{args: "sign --key=keys/id", want: []string{"read /workspace/keys/id by deny_paths?"}},
		{args: "cat in.txt none -k"},
		{args: "cat /no/such /usr/share /proc/1 / /data /data/deep"},
		{args: "/tools/bin/x"},
		{args: "cat /src/p/in.txt", want: []string{"read /src/p/in.txt?"}},
		{args: "cat link", want: []string{shown("/away/file")}},
		{args: "connect /run/app.sock", want: []string{`connect /run/app.sock by unix_sockets?`}},
		{script: "cat '/data/set.csv' | sort", want: []string{shown("/data/set.csv")}},
		{args: "scp /data/set.csv host:", want: []string{shown("/data/set.csv")}},
		{args: "git config user.name x"}, {args: "git config --get none"}, {args: "pre-commit install"}, {args: "git add -A"}, {args: "cat config"},
	} {
		spec := someSpec()
		if tt.on {
			spec.Network.Mode = shared.NetworkHost
		}
		check(t, tt.args+tt.script, &Failure{Spec: spec, Command: shared.Command{Args: strings.Fields(tt.args), Script: tt.script, Dir: "/workspace"}}, tt.want)
	}
}

// What programs of all kinds write when something fails.
func TestSaid(t *testing.T) {
	t.Parallel()
	const shown = `read /srv/lib by bind_paths: add "/srv/lib" to bind_paths?`
	for said, want := range map[string][]string{
		"cat: /srv/lib: No such file or directory":                                                                                          {shown},
		"cc1: error: /srv/lib/: No such file or directory\n":                                                                                {shown},
		"FileNotFoundError: [Errno 2] No such file or directory: '/srv/lib'":                                                                {shown},
		"Error: ENOENT: no such file or directory, open '/srv/lib'":                                                                         {shown},
		"open /srv/lib: no such file or directory":                                                                                          {shown},
		"java.io.FileNotFoundException: /srv/lib (No such file or directory)":                                                               {shown},
		"\x1b[31mcat: \x1b[1m/srv/lib\x1b[0m: No such file or directory\x1b[0m\r\n":                                                         {shown},
		"make: *** No rule to make target '/srv/lib', needed by 'all'.  Stop.":                                                              {shown},
		"cat: /srv/gone: No such file or directory":                                                                                         nil,
		"main.c:1:10: fatal error: missing.h: No such file or directory":                                                                    nil,
		"cat: /home/me/.ssh/id: No such file or directory":                                                                                  {"read /home/me/.ssh/id?"},
		"cat: keys/id: No such file or directory":                                                                                           {"read /workspace/keys/id by deny_paths?"},
		"cat: keys: Permission denied":                                                                                                      {"read /workspace/keys by deny_paths?"},
		"cat: link: No such file or directory":                                                                                              {`read /away/file by bind_paths: add "/away/file" to bind_paths?`},
		"touch: cannot touch '/opt/new': Read-only file system":                                                                             {"write /opt/new?"},
		"touch: cannot touch '/workspace/new': Read-only file system":                                                                       nil,
		"error: could not lock config file .git/config: Read-only file system":                                                              {`write /workspace/.git/config by git: git = "full"?`},
		"cp: cannot create regular file '.git/config': Read-only file system":                                                               {`write /workspace/.git/config by git: git = "full"?`},
		"sh: 1: cannot create .vscode/tasks.json: Read-only file system":                                                                    {`write /workspace/.vscode/tasks.json by protect_paths_except: add ".vscode" to protect_paths_except?`},
		"mv: cannot move '.git' to 'x': Device or resource busy":                                                                            {"write /workspace/.git by git?"},
		"touch: cannot touch '/data/deep/tools/x': Read-only file system":                                                                   {`write /data/deep/tools/x by bind_paths[0]: bind_paths[0] = { host = "/src/tools", container = "/data/deep/tools", read_only = false }?`},
		"error connecting to api.github.com":                                                                                                {`connect api.github.com by network: network = ["api.github.com"]?`},
		"wget: bad address 'one.example'":                                                                                                   {`connect one.example by network: network = ["one.example"]?`},
		`Could not connect to the endpoint URL: "https://s3.example/"`:                                                                      {`connect s3.example by network: network = ["s3.example"]?`},
		"Could not reach host rubygems.org. Check your network connection":                                                                  {`connect rubygems.org by network: network = ["rubygems.org"]?`},
		"dial tcp: lookup charts.example on [::1]:53: connect: connection refused":                                                          {`connect charts.example by network: network = ["charts.example"]?`},
		"Failed to connect to the host via ssh: ssh: Could not resolve hostname h.example: Temporary failure in name resolution":            {`connect h.example by network: network = ["h.example:22"]?`},
		"dns error: failed to lookup address information: Temporary failure in name resolution":                                             {"connect by network?"},
		"sh: 1: mytool: not found":                                                                                                          {`execute /tools/bin/mytool by bind_paths: add "/tools/bin" to bind_paths?`},
		"bash: line 1: mytool: command not found":                                                                                           {`execute /tools/bin/mytool by bind_paths: add "/tools/bin" to bind_paths?`},
		"zsh:1: command not found: mytool":                                                                                                  {`execute /tools/bin/mytool by bind_paths: add "/tools/bin" to bind_paths?`},
		`exec: "mytool": executable file not found in $PATH`:                                                                                {`execute /tools/bin/mytool by bind_paths: add "/tools/bin" to bind_paths?`},
		"sh: 1: sh: not found":                                                                                                              nil,
		"sh: 1: nothing: not found":                                                                                                         nil,
		"404 page not found":                                                                                                                nil,
		"curl: (6) Could not resolve host: registry.npmjs.org":                                                                              {`connect registry.npmjs.org by network: network = ["registry.npmjs.org"]?`},
		"npm error code EAI_AGAIN\nnpm error request to https://r.example/x failed, reason: getaddrinfo EAI_AGAIN":                          {`connect r.example by network: network = ["r.example"]?`},
		"socket.gaierror: [Errno -3] Temporary failure in name resolution":                                                                  {"connect by network?"},
		"java.net.UnknownHostException: repo.example.org":                                                                                   {`connect repo.example.org by network: network = ["repo.example.org"]?`},
		"<pip._vendor.urllib3.connection.HTTPSConnection object>: [Errno -3] Temporary failure in name resolution":                          {"connect by network?"},
		"HTTPSConnectionPool(host='pypi.org', port=443): Temporary failure in name resolution":                                              {`connect pypi.org by network: network = ["pypi.org"]?`},
		"ssh: Could not resolve hostname git.example.com: Temporary failure in name resolution":                                             {`connect git.example.com by network: network = ["git.example.com:22"]?`},
		"ssh: Could not resolve hostname host: Temporary failure in name resolution":                                                        {"connect by network?"},
		"psql: could not translate host name \"db.example\" to address: Name or service not known":                                          {"connect by network?"},
		"W: Failed to fetch http://deb.example/x  Temporary failure resolving 'deb.example'":                                                {`connect deb.example by network: network = ["deb.example"]?`},
		"ERROR:  Could not find a valid gem 'rake' (>= 0), here is why:\nUnable to download data from https://gems.example/ - no such name": {`connect gems.example by network: network = ["gems.example"]?`},
		"getaddrinfo ENOTFOUND api.example.com":                                                                                             {`connect api.example.com by network: network = ["api.example.com"]?`},
		"dial tcp: lookup proxy.golang.org: no such host":                                                                                   {`connect proxy.golang.org by network: network = ["proxy.golang.org"]?`},
		"curl: (7) Failed to connect to 192.0.2.1 port 80 after 0 ms: Couldn't connect to server":                                           {"connect 192.0.2.1:80 by network?"},
		"curl: (7) Failed to connect to x port 80 after 0 ms: Couldn't connect to server":                                                   nil,
		"Failed to connect to bus: Host is down":                                                                                            nil,
		"connect: Network is unreachable":                                                                                                   {"connect by network?"},
		"could not connect to /run/app.sock":                                                                                                {"connect /run/app.sock by unix_sockets?"},
		"touch: cannot touch '/data/new': Read-only file system":                                                                            {"write /data/new?"},
		"bash: line 1: ../data/new: Read-only file system":                                                                                  {"write /data/new?"},
		"touch: cannot touch '/srv/lib/new': No such file or directory":                                                                     {"write /srv/lib/new?"},
		"cat: /srv/lib/new: No such file or directory":                                                                                      nil,
		"mkdir: cannot create directory '.vscode': File exists":                                                                             {`write /workspace/.vscode by protect_paths_except: add ".vscode" to protect_paths_except?`},
		"mkdir: cannot create directory 'keys': File exists":                                                                                nil,
		"error: could not write config file .git/config: Device or resource busy":                                                           {`write /workspace/.git/config by git: git = "full"?`},
		"cat: key: No such file or directory":                                                                                               {"read /workspace/keys/id by deny_paths?"},
		"error: keys/id: can only add regular files, symbolic links or git-directories":                                                     {"read /workspace/keys/id by deny_paths?"},
		"error: key does not contain a section: nosuch":                                                                                     nil,
		"cat: .vscode: Permission denied":                                                                                                   nil,
		"git@github.com: Permission denied (publickey).":                                                                                    nil,
		"ping: socket: Operation not permitted":                                                                                             {"call?"},
		"ping: permission denied (are you root?)":                                                                                           {"call?"},
		"Error: listen EACCES: permission denied 0.0.0.0:80":                                                                                {"call?"},
		"Error: listen EACCES: permission denied 0.0.0.0:8080":                                                                              nil,
		"Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?":                                 nil,
		"E: Unable to lock directory /var/lib/app/lock - open (2: No such file or directory)":                                               {`read /var/lib/app/lock by bind_paths?`},
		"E: Could not open lock file /var/lib/dpkg/lock-frontend - open (30: Read-only file system)":                                        {`write /var/lib/dpkg/lock-frontend?`},
		"cannot open file '/usr/lib/R/etc/Rprofile.site': No such file or directory":                                                        {`read /etc/R/Rprofile.site by bind_paths: add "/etc/R/Rprofile.site" to bind_paths?`},
		"cannot open file '/usr/lib/R/etc/ldpaths': No such file or directory":                                                              nil,
		"connection to server at \"localhost\" (127.0.0.1), port 5432 failed: Connection refused":                                           {`connect localhost:5432 by host_ports: add 5432 to host_ports?`},
		"Error: connect ECONNREFUSED 127.0.0.1:5432":                                                                                        {`connect localhost:5432 by host_ports: add 5432 to host_ports?`},
		"Error: connect ECONNREFUSED 127.0.0.1:5433":                                                                                        nil,
		"strace: ptrace(PTRACE_TRACEME, ...): Operation not permitted":                                                                      {"call by config.ptrace: config { ptrace = true }?"},
		"unshare: unshare failed: Operation not permitted":                                                                                  {"call by config.nested_userns: config { nested_userns = true }?"},
		"mount: /mnt: permission denied.":                                                                                                   {"call?"},
		"sh: 1: Cannot fork":                                                                                                                {"use by limits.pids: limits { pids = 16 }?"},
		"BlockingIOError: [Errno 11] Resource temporarily unavailable":                                                                      nil,
		"os.fork()\nBlockingIOError: [Errno 11] Resource temporarily unavailable":                                                           {"use by limits.pids: limits { pids = 16 }?"},
		"cp: error writing 'big': No space left on device":                                                                                  nil,
		"MemoryError": {`use by limits.memory: limits { memory = "128MiB" }?`},
		"OSError: [Errno 24] Too many open files: '/x'":                            {"use by limits.open_files: limits { open_files = 64 }?"},
		"dd: error writing '/tmp/x': No space left on device":                      {`use by limits.temp_size: limits { temp_size = "16MiB" }?`},
		"sh: 1: API_URL: parameter not set":                                        {`read by env_passthrough: add "API_URL" to env_passthrough?`},
		"KeyError: OTHER_URL is not set":                                           nil,
		"cp: cannot create special file '/tmp/x/./id': Operation not permitted":    {"read /workspace/deep/id by deny_paths?"},
		`rsync: [generator] mknod "/tmp/x/id" failed: Operation not permitted (1)`: {"read /workspace/deep/id by deny_paths?"},
		"tar: ./id: Cannot mknod: Operation not permitted":                         {"read /workspace/deep/id by deny_paths?"},
		"cp: cannot create special file '/tmp/x/null': Operation not permitted":    {"call?"},
		"mknod: /tmp/id: Operation not permitted":                                  {"call?"},
		"warning: failed to remove .vscode/.gitignore: Read-only file system":      nil,
		"warning: failed to remove keys/: Device or resource busy":                 {"read /workspace/keys by deny_paths?"},
		"touch: cannot touch '.git/worktrees/other/HEAD': Read-only file system":   {"write /workspace/.git/worktrees/other/HEAD by git?"},
		"touch: cannot touch 'a.code-workspace': Read-only file system":            {`write /workspace/a.code-workspace by protect_paths_except: add "*.code-workspace" to protect_paths_except?`},
		"just some text, and /srv/lib":                                             nil,
		"":                                                                         nil,
	} {
		spec := someSpec()
		spec.Limits = shared.Limits{PIDs: 8, Memory: 64 << 20, OpenFiles: 32, TempSize: 8 << 20}
		check(t, said, &Failure{Spec: spec, Command: shared.Command{Args: []string{"x"}, Dir: "/workspace"}, Stderr: []byte(said)}, want)
	}
}

// What git writes when it goes on without a file, with status 0. Other words of a command that
// succeeded tell nothing.
func TestLeftByGit(t *testing.T) {
	t.Parallel()
	for said, want := range map[string][]string{
		"error: unable to unlink old '.vscode/settings.json': Read-only file system\r\nSwitched to branch 'x'\n": {`write /workspace/.vscode/settings.json by protect_paths_except: add ".vscode" to protect_paths_except?`},
		"warning: unable to unlink '.vscode': Device or resource busy":                                           {`write /workspace/.vscode by protect_paths_except: add ".vscode" to protect_paths_except?`},
		"Rebasing (1/2)\rerror: unable to create file .vscode/two words: Read-only file system":                  {`write /workspace/.vscode/two words by protect_paths_except: add ".vscode" to protect_paths_except?`},
		"error: unable to unlink old 'keys/id': Device or resource busy":                                         {"read /workspace/keys/id by deny_paths?"},
		"error: unable to unlink old 'in.txt': Device or resource busy":                                          nil,
		"error: unable to unlink old '.vscode/settings.json': Permission denied":                                 nil,
		"error: Your local changes to the following files would be overwritten by checkout:\n\t.vscode/x":        nil,
		"^@error: unable to unlink old '.vscode/typed': Read-only file system":                                   {`write /workspace/.vscode/typed by protect_paths_except: add ".vscode" to protect_paths_except?`},
		"touch: cannot touch '.vscode/x': Read-only file system":                                                 nil,
		"curl: (6) Could not resolve host: registry.npmjs.org":                                                   nil,
		"": nil,
	} {
		if want != nil && !LeavesFiles([]byte(said)) {
			t.Errorf("%q is passed by", said)
		}
		for _, dir := range []string{"/workspace", "/workspace/sub/deeper"} {
			check(t, dir+": "+said, &Failure{Succeeded: true, Command: shared.Command{Args: []string{"curl", "/data/set.csv"}, Dir: dir}, Stderr: []byte(said)}, want)
		}
	}
	check(t, "failed", &Failure{Command: shared.Command{Args: []string{"git"}, Dir: "/workspace/sub"},
		Stderr: []byte("error: unable to unlink old '.vscode/x': Read-only file system\nfatal: Could not reset index file to revision 'HEAD'.")},
		[]string{`write /workspace/.vscode/x by protect_paths_except: add ".vscode" to protect_paths_except?`})
}

// A refused call that no path explains takes a privilege, whichever program says so.
func TestPrivileges(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"chown: changing ownership of 'x': Operation not permitted":               "call?",
		"chmod: changing permissions of 'tool': Operation not permitted":          "call?",
		"mknod: /tmp/n: Operation not permitted":                                  "call?",
		"unable to set CAP_SETFCAP effective capability: Operation not permitted": "call?",
		"chrt: failed to set pid 0's policy: Operation not permitted":             "call?",
		"dmesg: read kernel buffer failed: Operation not permitted":               "call?",
		"E: Unable to acquire the dpkg frontend lock (/var/lib/x), are you root?": "call?",
		"mount: only root can use \"--types\" option":                             "call?",
		"unshare: unshare failed: Operation not permitted":                        "call by config.nested_userns: config { nested_userns = true }?",
		"rename 'keys': Operation not permitted":                                  "read /workspace/keys by deny_paths?",
	} {
		check(t, said, &Failure{Command: shared.Command{Args: []string{"x"}, Dir: "/workspace"}, Stderr: []byte(said)}, []string{want})
	}
}

// Ports and modes have reasons of their own, which name what to do.
func TestReasonsOfPrivileges(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ script, said, want string }{
		{"chmod g+s tool", "chmod: changing permissions of 'tool': Operation not permitted", "set-id"},
		{"install -m 2755 tool x", "install: cannot change permissions of 'x': Operation not permitted", "set-id"},
		{"cp -a src x", "cp: preserving permissions for 'x': Operation not permitted", "set-id"},
		{"tar xpf x.tar", "tar: src: Cannot change mode to rwxr-sr-x: Operation not permitted", "set-id"},
		{"node x", "Error: EPERM: operation not permitted, chmod 'x'", "set-id"},
		{"busybox httpd -f -p 80", "httpd: bind: Permission denied", "publish"},
		{"python3 -m http.server 80", "    self.socket.bind(self.server_address)\nPermissionError: [Errno 13] Permission denied", "publish"},
		{"chown nobody x", "chown: changing ownership of 'x': Operation not permitted", "root's privileges"},
	} {
		f := &Failure{Spec: someSpec(), Machine: someMachine(), Option: func(string) bool { return true }, Command: shared.Command{Script: tt.script, Dir: "/workspace"}, Stderr: []byte(tt.said)}
		if list := f.Denials(); len(list) != 1 || !strings.Contains(list[0].Reason, tt.want) {
			t.Errorf("%s: %+v, want one with %q", tt.script, list, tt.want)
		}
	}
}

func TestNotFound(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"mytool":            {`execute /tools/bin/mytool by bind_paths: add "/tools/bin" to bind_paths`},
		"/tools/bin/x":      {`execute /tools/bin/x by bind_paths: add "/tools/bin/x" to bind_paths`},
		"./in.txt":          {`execute /tools/bin/x by bind_paths: add "/tools/bin/x" to bind_paths`},
		"/workspace/in.txt": {`execute /tools/bin/x by bind_paths: add "/tools/bin/x" to bind_paths`},
		"none":              nil, "sh": nil, "./x": nil,
	} {
		check(t, name, &Failure{NotFound: true, Command: shared.Command{Args: []string{name}, Dir: "/workspace"}}, want)
	}
	m := someMachine()
	m.dropped = "PATH entry is inside the workspace"
	check(t, "dropped", &Failure{NotFound: true, Command: shared.Command{Args: []string{"mytool"}}, Machine: m}, []string{"execute /tools/bin/mytool by env"})
}

func TestRefusedNames(t *testing.T) {
	t.Parallel()
	spec := someSpec()
	spec.Network = shared.Network{Mode: shared.NetworkNames, Names: []string{"a.example"}}
	check(t, "names", &Failure{Spec: spec, Command: shared.Command{Args: []string{"curl"}}, Network: []audit.NetworkUse{
		{Name: "a.example", Port: 443, Allowed: true}, {Name: "b.example", Reason: "no rule allows it"}, {Name: "b.example", Reason: "no rule allows it"},
		{Name: "c.example", Port: 8443, Reason: "no rule allows it"}, {Name: "d.example", Port: 443, Reason: "its address is private"},
		{Name: "192.0.2.1", Port: 443, Reason: "no rule allows it"}, {Reason: "for various reasons"},
		{Name: "a.example", Port: 22, Reason: egress.ReasonPort(22)}, {Name: "e.example", Port: 443, Reason: egress.ReasonPort(443)},
		{Name: "f.example", By: egress.OfSession, Reason: "no rule allows it"},
	}}, []string{
		`connect b.example by network: add "b.example" to network`, `connect c.example:8443 by network: add "c.example:8443" to network`,
		"connect d.example:443 by network", "connect 192.0.2.1:443 by network",
		`connect a.example:22 by network: add "a.example:22" to network`, `connect e.example:443 by network: add "e.example:443" to network`,
		`connect f.example by network: add "f.example" to network?`,
	})
}

// A hint for an address that a proxy was asked for says that no rule can list it. The gate quotes one of IPv6.
func TestRefusedAddress(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"192.0.2.1", `"2001:db8::1"`, `"[2001:db8::1]"`} {
		d := refusedName(egress.Decision{Name: name, Port: 80}, egress.ReasonUnlisted)
		if d.Value != "" || !strings.Contains(d.Reason, "it is an address") {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// An address is reached by no name of a list.
func TestUnnamedAddress(t *testing.T) {
	t.Parallel()
	spec := someSpec()
	spec.Network = shared.Network{Mode: shared.NetworkNames, Names: []string{"a.example"}}
	for said, want := range map[string][]string{
		"curl: (7) Failed to connect to 192.0.2.1 port 80 after 0 ms: Couldn't connect to server": {"connect 192.0.2.1:80 by network?"},
		"connect ENETUNREACH 192.0.2.1:443 - Local (0.0.0.0:0)":                                   {"connect 192.0.2.1:443 by network?"},
		"connect ECONNREFUSED 198.18.1.2:443":                                                     nil, // a name has it
		"Failed to connect to a.example (192.0.2.1) port 443: Connection refused":                 nil,
		// Nor does every gate see that a port is tried which no rule has.
		"curl: (7) Failed to connect to a.example port 22 after 0 ms: Couldn't connect to server":  {`connect a.example:22 by network: add "a.example:22" to network?`},
		"curl: (7) Failed to connect to a.example port 443 after 0 ms: Couldn't connect to server": nil,
		"connection to a.example:5432 failed: Connection refused":                                  {`connect a.example:5432 by network: add "a.example:5432" to network?`},
		"connection to b.example:5432 failed: Connection refused":                                  nil, // which its nameserver tells
	} {
		check(t, said, &Failure{Spec: spec, Command: shared.Command{Args: []string{"x"}}, Stderr: []byte(said)}, want)
	}
}

// What a command's own text has, beside what it said.
func TestTextAndSaid(t *testing.T) {
	t.Parallel()
	named := func(host, rule string) []string {
		return []string{fmt.Sprintf("connect %s by network: network = [%q]?", host, rule)}
	}
	shown := func(p string) []string {
		return []string{fmt.Sprintf("read %s by bind_paths: add %q to bind_paths?", p, p)}
	}
	for _, tt := range []struct {
		script, said string
		want         []string
	}{
		// The port is that of an option or of an endpoint.
		{"sftp -P 2022 user@a.example", "ssh: Could not resolve hostname a.example: Temporary failure in name resolution", named("a.example", "a.example:2022")},
		{"ssh -p 2022 a.example", "ssh: Could not resolve hostname a.example: Temporary failure in name resolution", named("a.example", "a.example:2022")},
		{"redis-cli -h a.example -p 6380", "Could not connect to Redis at a.example:6380: Temporary failure in name resolution", named("a.example", "a.example:6380")},
		{"echo x | tee /srv/lib/new", "tee: /srv/lib/new: No such file or directory", []string{"write /srv/lib/new?"}},
		{"ssh -o NoSuch=1 a.example", "command-line: line 0: Bad configuration option: nosuch", nil},
		{"getent hosts a.example", "", named("a.example", "a.example")},
		{"nc 127.0.0.1 5432", "nc: can't connect to remote host (127.0.0.1): Connection refused", []string{"connect localhost:5432 by host_ports: add 5432 to host_ports?"}},
		{"nc 127.0.0.1 5433", "nc: can't connect to remote host (127.0.0.1): Connection refused", nil},
		{`perl -e 'PeerAddr => "localhost:5432"'`, "no database: Connection refused", []string{"connect localhost:5432 by host_ports: add 5432 to host_ports?"}},
		{"cat /srv/lib || echo No such file or directory", "cat: /srv/lib: No such file or directory", shown("/srv/lib")},
		// The tool has another reason.
		{"echo building >&2; curl -s https://a.example", "building", named("a.example", "a.example")},
		{"touch /tmp/x && exit 30", "", nil},
		{"mkdir /tmp/x && cp -r . /tmp/x", "", nil}, {"cp -r . /tmp/x; cat /tmp/x", "", nil}, {"echo x > /tmp/x; exit 3", "", nil},
		{"tmux -S /run/app.sock ls", "error connecting to /run/app.sock (No such file or directory)", []string{"connect /run/app.sock by unix_sockets?"}},
		// What the text sets and the options lead to.
		{"./in.txt", "sh: 1: ./in.txt: not found", []string{`execute /tools/bin/x by bind_paths: add "/tools/bin/x" to bind_paths?`}},
		{"git clone -q file:///srv/lib", "fatal: '/srv/lib' does not appear to be a git repository", shown("/srv/lib")},
		{"cat /etc/left.conf", "cat: /etc/left.conf: No such file or directory", []string{"read /etc/left.conf by bind_paths?"}},
		{"head -c0 /dev/fuse", "head: cannot open '/dev/fuse' for reading: No such file or directory", []string{"read /dev/fuse by devices?"}},
		{"cat /dev/kmsg", "cat: /dev/kmsg: No such file or directory", []string{"read /dev/kmsg by devices?"}},
		// It would be a file of the host's own process.
		{"cat /proc/self/fd/3", "cat: /proc/self/fd/3: No such file or directory", nil},
	} {
		m := someMachine()
		m.links["/proc/self/fd/3"] = "/away/file"
		for _, p := range []string{"/dev/fuse", "/dev/kmsg", "/etc/left.conf"} {
			m.files[p] = view.File
		}
		m.files["/srv"] = view.Directory
		check(t, tt.script+": "+tt.said, &Failure{Machine: m, Command: shared.Command{Script: tt.script, Dir: "/workspace"}, Stderr: []byte(tt.said)}, tt.want)
	}
	// dash says the line of its script before a name without a slash.
	said := "sh: 1: cannot create new: Read-only file system"
	check(t, said, &Failure{Command: shared.Command{Script: "echo x >new", Dir: "/data/deep/tools"}, Stderr: []byte(said)},
		[]string{`write /data/deep/tools/new by bind_paths[0]: bind_paths[0] = { host = "/src/tools", container = "/data/deep/tools", read_only = false }?`})
	spec := someSpec()
	spec.Network = shared.Network{Mode: shared.NetworkNames, Names: []string{"a.example"}}
	check(t, "a proxy", &Failure{Spec: spec, Command: shared.Command{Script: "HTTPS_PROXY=http://p.example:3128 curl https://a.example"}, Network: []audit.NetworkUse{{Name: "p.example", Reason: egress.ReasonUnlisted}}},
		[]string{`connect p.example by network: add "p.example:3128" to network`})
}

// However much an engine tells, the list is short, and says how much there is not in it.
func TestManyDenials(t *testing.T) {
	t.Parallel()
	var told []Denial
	for i := range 10 * maxDenials {
		told = Add(told, Denial{Path: fmt.Sprint("/", i), Operation: "read", Reason: "denied"})
	}
	f := &Failure{EngineDenials: told, Spec: someSpec(), Machine: someMachine(), Option: func(string) bool { return true }, Network: []audit.NetworkUse{{Name: "b.example", Reason: "no rule allows it"}}}
	list := f.Denials()
	if last := list[len(list)-1]; len(told) != maxDenials || len(list) != maxDenials || list[maxDenials-2].Path != "/30" || last.Reason != "290 further denials are not listed" {
		t.Errorf("%d and %d, the last %+v", len(told), len(list), last)
	}
}

// What an engine tells comes first, and words say nothing new of it.
func TestToldComesFirst(t *testing.T) {
	t.Parallel()
	check(t, "told", &Failure{
		EngineDenials: []Denial{{Path: "/workspace/keys/id", Operation: "file-read-data", Attribute: "deny_paths[0]", Reason: "denied"}},
		Command:       shared.Command{Args: strings.Fields("cat keys/id /data/set.csv"), Dir: "/workspace"},
	}, []string{"file-read-data /workspace/keys/id by deny_paths[0]"})
}

// A text of HCL's is one, whatever it says.
func TestTexts(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"/a b": `"/a b"`, `/a"b`: `"/a\"b"`, "/${env.X}%{if}": `"/$${env.X}%%{if}"`} {
		if got := text(in); got != want {
			t.Errorf("%q is %s, want %s", in, got, want)
		}
	}
	for n, want := range map[uint64]string{1 << 30: `"1GiB"`, 96 << 20: `"96MiB"`, 3 << 10: `"3KiB"`, 1001: `"1001B"`} {
		if got := size(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

// Arguments and output come from anywhere: nothing about them may break this, and no
// number of them makes it long.
func FuzzDenials(f *testing.F) {
	f.Add("curl\x00../../..", "a=$(b; c) # d\n\"e' &&", "/workspace", "cat: '/a': No such file or directory")
	f.Add("git\x00-C\x00-c\x00fetch", "", "/", "\x1b]0;x\x07getaddrinfo ENOTFOUND [::1]:99999 API_URL not set")
	f.Fuzz(func(t *testing.T, args, script, dir, said string) {
		m := someMachine()
		failed := &Failure{
			Sandbox: "s", Command: shared.Command{Args: strings.Split(args, "\x00"), Script: script, Dir: "/" + dir}, Stderr: []byte(said),
			Spec: &shared.Spec{Table: []shared.Entry{{Path: "/tmp", Access: shared.Private}, {Path: "/workspace/a"}}}, Machine: m, Option: func(string) bool { return true },
		}
		for _, missing := range [...]bool{false, true} {
			failed.NotFound = missing
			list := failed.Denials()
			if len(list) > maxDenials {
				t.Errorf("%d denials", len(list))
			}
			for i := range list {
				if strings.ContainsAny(list[i].Change, "\n\x1b") {
					t.Errorf("a change of more than a line: %q", list[i].Change)
				}
			}
		}
	})
}
