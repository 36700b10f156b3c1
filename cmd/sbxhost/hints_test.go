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
	"github.com/sbxhost/sbxhost/host"
)

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
	for _, block := range []string{"sandbox", "engine", "workspace", "approvals", "session", "limits", "config"} {
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
		case typo.name == "" && (typo.block == "limits" || typo.block == "session" || typo.block == "config"):
			text = "sandbox \"s\" {\n" + wrong + " {}\n}\n"
		case typo.name == "":
			text = "\n" + wrong + " \"s\" {}\nsandbox \"s\" {}\n"
		case typo.block == "":
			text = "\n" + line + "\nsandbox \"s\" {}\n"
		case typo.block == "limits" || typo.block == "session":
			text = "sandbox \"s\" { \n" + typo.block + " {\n" + line + "\n}\n}\n"
		case typo.block == "bind_paths":
			text = "sandbox \"s\" {\nbind_paths = [{ host = \"/x\", " + line + " }]\n}\n"
		case typo.block == "sandbox" || typo.block == "engine":
			text = typo.block + " \"s\" {\n" + line + "\n}\nsandbox \"t\" {}\n"
		default:
			text = typo.block + " {\n" + line + "\n}\nsandbox \"s\" {}\n"
		}
		at := ":2,"
		if (typo.block == "limits" || typo.block == "session") && typo.name != "" {
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
	for i := range 30 {
		uses = append(uses, audit.NetworkUse{Name: fmt.Sprint("n", i, ".example"), Reason: "no rule allows it"})
	}
	if got := networkSummary(uses); len(got) != maxSummary+1 || got[maxSummary] != "network: and 14 more" {
		t.Errorf("%q", got)
	}
}

func TestSuggestion(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		denials []host.Denial
		want    string
	}{
		{nil, `suggestion: there is nothing to change in sandbox "s"`},
		{[]host.Denial{{Path: "/k", Attribute: "deny_paths"}, {Path: "/x"}}, `suggestion: there is nothing to change in sandbox "s"`},
		{[]host.Denial{
			{Attribute: "limits.pids", Value: "32"}, {Attribute: "bind_paths", Value: `"/a/b"`, Element: true}, {Attribute: "bind_paths", Value: `"/a"`, Element: true},
			{Attribute: "bind_paths", Value: `"/a"`, Element: true}, {Attribute: "bind_paths", Value: `"/ab"`, Element: true}, {Attribute: "network", Value: "true"},
			{Attribute: "network", Value: `"a.example"`, Element: true}, {Attribute: "network", Value: "true"},
			{Attribute: "config.ptrace", Value: "true"}, {Attribute: "bind_paths[1]", Value: `{ host = "/x", read_only = false }`},
		}, `suggestion; what a list has already stays in it:
sandbox "s" {
  bind_paths = ["/a", "/ab"]
  network = ["a.example"]
  config {
    ptrace = true
  }
  limits {
    pids = 32
  }
}`},
	} {
		if got := suggestion("s", tt.denials); got != tt.want {
			t.Errorf("got %s\nwant %s", got, tt.want)
		}
	}
}
