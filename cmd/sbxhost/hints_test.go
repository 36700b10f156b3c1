package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/audit"
	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/shared"
)

func TestHints(t *testing.T) {
	t.Parallel()
	onHost := map[string]bool{"/data/set.csv": true, "/src/p/in.txt": true, "/tmp/x": true, "/home/me/.ssh/id": true, "/usr/share": true, "/data": true, "/tools/bin/x": true}
	spec := &shared.Spec{Home: "/home/me", Table: []shared.Entry{
		{Source: "/src/tools", Path: "/data/deep/tools", Access: shared.ReadOnly, Why: "bind_paths[0]"},
		{Source: "/src/p", Path: "/workspace", Access: shared.ReadWrite, Why: "workspace"},
		{Path: "/data", Missing: shared.MissingIgnore, Why: view.OriginAbove},
		{Path: "/workspace/.env", Missing: shared.MissingIgnore, Why: "approvals.mode = \"deny\""},
		{Path: "/workspace/keys", Missing: shared.MissingHold, Why: "deny_paths \"keys\""},
	}}
	network := func(what string) string {
		return `sandbox "fast" has no network; if ` + what + ` needs one: -network=true, or network = true at config.hcl:5`
	}
	hidden := func(path string) string {
		return path + ` exists on this machine, and sandbox "fast" does not show it; if the command may see it, add it to bind_paths at config.hcl:3`
	}
	for _, tt := range []struct {
		args   string
		script string
		on     bool // a network
		want   []string
	}{
		{args: "curl https://example.com", want: []string{network("curl")}},
		{args: "/usr/bin/curl https://example.com", want: []string{network("curl")}},
		{args: "curl https://example.com", on: true},
		{args: "npm ci", want: []string{network("npm ci")}},
		{args: "npm --silent ci", want: []string{network("npm ci")}},
		{args: "npm test"},
		{args: "npm run install"},
		{args: "git -C sub fetch", want: []string{network("git fetch")}},
		{args: "git commit -m fetch"},
		{args: "python3 -m pip install x", want: []string{network("pip install")}},
		{args: "python3 install"},
		{args: "go build ./..."},
		{args: "curl"}, // replaced below: one word is enough
		{script: "cd x && npm ci; npm test", want: []string{network("npm ci")}},
		{script: "if ! CI=1 npm ci; then exit 1; fi", want: []string{network("npm ci")}},
		{script: "echo \"use curl\" # curl"},
		{script: "out=$(curl -s x)", want: []string{network("curl")}},
		{args: "sh -c", script: ""},
		{args: "cat /data/set.csv", want: []string{hidden("/data/set.csv")}},
		{args: "tool --in=/data/set.csv", want: []string{hidden("/data/set.csv")}},
		{args: "cat ../data/set.csv", want: []string{hidden("/data/set.csv")}},
		{args: "cat /data/../tmp/x", want: []string{hidden("/tmp/x")}},
		{args: "cat /home/me/.ssh/id /data/set.csv", want: []string{hidden("/home/me/.ssh/id")}},
		{args: "cat .env", want: []string{`/workspace/.env is hidden in sandbox "fast" (approvals.mode = "deny")`}},
		{args: "sign --key=keys/id", want: []string{`/workspace/keys/id is hidden in sandbox "fast" (deny_paths "keys")`}},
		{args: "cat in.txt none -k"},
		{args: "cat /no/such /usr/share /proc/1 / /data /data/deep"},
		{args: "/tools/bin/x"},
		{args: "cat /src/p/in.txt", want: []string{`/src/p/in.txt of this machine is /workspace/in.txt in sandbox "fast"`}},
		{script: "cat '/data/set.csv' | sort", want: []string{hidden("/data/set.csv")}},
		{args: "scp /data/set.csv host:", want: []string{network("scp"), hidden("/data/set.csv")}},
	} {
		f := &failure{
			sandbox: "fast", networkAt: "config.hcl:5", bindAt: "config.hcl:3", network: tt.on, spec: spec,
			command: shared.Command{Args: strings.Fields(tt.args), Script: tt.script, Dir: "/workspace"},
			exists:  func(path string) bool { return onHost[path] },
		}
		if tt.args == "curl" {
			tt.want = []string{network("curl")}
		}
		if got := f.hints(); strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%q %q:\n got %q\nwant %q", tt.args, tt.script, got, tt.want)
		}
	}
	for args, want := range map[string]string{
		"git config user.name x": "git config", "git -C sub remote add o x": "git remote", "git branch -m x": "git branch -m",
		"git submodule init": "git submodule", "npx husky install": "husky install", "pre-commit install": "pre-commit install",
		"git commit -m config": "", "git branch x": "", "git": "", "cat config": "", "pre-commit run": "",
	} {
		f := &failure{sandbox: "fast", gitAt: "config.hcl:7", gitKept: true, command: shared.Command{Args: strings.Fields(args)}}
		if want != "" {
			want = `sandbox "fast" protects the hooks and the configuration that git obeys; if ` + want + ` has to change them: git = "full" at config.hcl:7`
		}
		if got := f.protectedGit(); got != want {
			t.Errorf("%q: got %q, want %q", args, got, want)
		}
		if f.gitKept = false; f.protectedGit() != "" {
			t.Errorf("%q: a hint where nothing is protected", args)
		}
	}
}

// What is hidden cannot be added: git says no more than that it is no regular file.
func TestRefusedAdd(t *testing.T) {
	t.Parallel()
	table := []shared.Entry{
		{Source: "/w", Path: "/w", Access: shared.ReadWrite, Why: "workspace"},
		{Path: "/elsewhere/.env", Why: "deny_paths"}, {Path: "/w/keys", Why: "deny_paths"}, {Path: "/w/gone", Why: "deny_paths"},
		{Path: "/w/sub/.env", Why: `deny_paths "**/.env"`},
	}
	files := map[string]bool{"/w/sub/.env": true, "/elsewhere/.env": true}
	for args, want := range map[string]bool{"git add -A": true, "git -C sub add .": true, "git commit -m add": false, "add": false, "git": false} {
		f := &failure{sandbox: "fast", spec: &shared.Spec{Table: table}, command: shared.Command{Args: strings.Fields(args), Dir: "/w"}, isFile: func(path string) bool { return files[path] }}
		if got := f.refusedAdd(); strings.HasPrefix(got, `git add refuses /w/sub/.env, which is hidden in sandbox "fast" (deny_paths "**/.env")`) != want {
			t.Errorf("%q: %q", args, got)
		}
		if f.spec.Table = table[:4]; f.refusedAdd() != "" {
			t.Errorf("%q: a hint where no file of the workspace is hidden", args)
		}
	}
}

// Arguments come from anywhere: nothing about them may break the hints.
func FuzzHints(f *testing.F) {
	f.Add("curl\x00../../..", "a=$(b; c) # d\n\"e' &&", "/workspace")
	f.Add("git\x00-C\x00-c\x00fetch", "", "/")
	f.Fuzz(func(t *testing.T, args, script, dir string) {
		failed := &failure{
			command: shared.Command{Args: strings.Split(args, "\x00"), Script: script, Dir: "/" + dir},
			spec:    &shared.Spec{Table: []shared.Entry{{Path: "/tmp", Access: shared.Private}, {Path: "/workspace/a"}}},
			exists:  func(string) bool { return true },
		}
		if n := len(failed.hints()); n > 2 {
			t.Errorf("%d hints", n)
		}
		notFoundHint("s", failed.command, func(string) string { return "/x" })
	})
}

func TestSuggestions(t *testing.T) {
	t.Parallel()
	a, _, _, _ := testApp(t, nil, "")
	bin := filepath.Join(a.dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "mytool"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, args := range []string{
		"exce -- ls", "valid", "frobnicate", "mytool", "engines lst", "engines frobnicate", "help exce", "help engines lst",
		"exec -netwrk=true ls", "exec -frobnicate ls", "exec", "exec -c", "exec -network ls", "exec -timeout 5 ls",
		"init a b", "version x", "explain -sandbx fast", "exec -sandbox fsat ls", "exec -sandbox other ls",
	} {
		a, _, errs, path := testApp(t, &fakeEngine{}, fastConfig)
		a.environ = append(a.environ, "SBXHOST_CONFIG="+path, "PATH="+bin)
		status := a.run(strings.Fields(args))
		if status != statusFailed {
			t.Errorf("%q: status %d", args, status)
		}
		b.WriteString("$ sbxhost " + args + "\n" + strings.ReplaceAll(errs.String(), filepath.Dir(path), "$DIR") + "\n")
	}
	golden(t, "suggestions.txt", b.String())
}

// Each attribute and block, misspelled, is reported at its place with its right
// name.
func TestEveryTypoIsUnderstood(t *testing.T) {
	t.Parallel()
	type typo struct{ block, name string }
	var typos []typo
	for _, ref := range config.Reference() {
		typos = append(typos, typo{ref.Block, ref.Name})
	}
	for _, block := range []string{"sandbox", "engine", "workspace", "approvals", "limits", "config"} {
		typos = append(typos, typo{block: block})
	}
	for _, typo := range typos {
		name := typo.name
		if name == "" {
			name = typo.block
		}
		wrong := name[:len(name)-2] + name[len(name)-1:] // one letter is missing
		line := wrong + " = 1"
		text := ""
		switch {
		case typo.name == "" && (typo.block == "limits" || typo.block == "config"):
			text = "sandbox \"s\" {\n" + wrong + " {}\n}\n"
		case typo.name == "":
			text = "\n" + wrong + " \"s\" {}\nsandbox \"s\" {}\n"
		case typo.block == "":
			text = "\n" + line + "\nsandbox \"s\" {}\n"
		case typo.block == "limits":
			text = "sandbox \"s\" { \nlimits {\n" + line + "\n}\n}\n"
		case typo.block == "bind_paths":
			text = "sandbox \"s\" {\nbind_paths = [{ host = \"/x\", " + line + " }]\n}\n"
		case typo.block == "sandbox" || typo.block == "engine":
			text = typo.block + " \"s\" {\n" + line + "\n}\nsandbox \"t\" {}\n"
		default:
			text = typo.block + " {\n" + line + "\n}\nsandbox \"s\" {}\n"
		}
		at := ":2,"
		if typo.block == "limits" && typo.name != "" {
			at = ":3,"
		}
		a, _, errs, path := testApp(t, nil, text)
		status := a.run([]string{"validate", "-config", path})
		said := strings.Join(strings.Fields(errs.String()), " ")
		if status != statusFailed || !strings.Contains(said, path+at) || !strings.Contains(said, `Did you mean "`+name+`"?`) {
			t.Errorf("%s.%s as %q: status %d\n%s", typo.block, name, wrong, status, errs)
		}
	}
}

func TestNetworkLines(t *testing.T) {
	t.Parallel()
	uses := []audit.NetworkUse{
		{Name: "a.example", Port: 443, Allowed: true, Connections: 2, Sent: 10, Received: 20},
		{Name: "b.example", Reason: "no rule allows it", Connections: 1},
		{Name: "c.example", Port: 80, Allowed: true, Reason: "connection refused", Connections: 1},
		{Connections: 7},
	}
	want := []string{
		"network: a.example:443: 2 connections, 10 bytes sent, 20 received",
		"network: refused b.example: no rule allows it",
		"network: could not reach c.example:80: connection refused",
		"network: refused others: for various reasons",
	}
	if got := networkSummary(uses); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := refusedNames(uses, "x.hcl:3"); !slices.Equal(got, []string{"refused b.example: no rule allows it; allow it in network, at x.hcl:3"}) {
		t.Errorf("%q", got)
	}
	for i := range 30 {
		uses = append(uses, audit.NetworkUse{Name: fmt.Sprint("n", i, ".example"), Reason: "no rule allows it"})
	}
	if got := refusedNames(uses, "x"); len(got) != maxRefused+1 || got[maxRefused] != "and 28 more, which -result lists" {
		t.Errorf("%q", got)
	}
	if got := networkSummary(uses); len(got) != maxSummary+1 || got[maxSummary] != "network: and 14 more" {
		t.Errorf("%q", got)
	}
}
