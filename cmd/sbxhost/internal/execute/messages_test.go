package execute

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/audit"
)

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
		{nil, ""},
		{[]host.Denial{{Path: "/k", Attribute: "deny_paths"}, {Path: "/x"}}, ""},
		{[]host.Denial{
			{Attribute: "limits.pids", Value: "32"}, {Attribute: "bind_paths", Value: `"/a/b"`, Element: true}, {Attribute: "bind_paths", Value: `"/a"`, Element: true},
			{Attribute: "bind_paths", Value: `"/a"`, Element: true}, {Attribute: "bind_paths", Value: `"/ab"`, Element: true}, {Attribute: "network", Value: "true"},
			{Attribute: "network", Value: `"a.example"`, Element: true}, {Attribute: "network", Value: "true"},
			{Attribute: "config.ptrace", Value: "true"}, {Attribute: "bind_paths[1]", Value: `{ host = "/x", read_only = false }`},
		}, `add this (keep what your lists have):
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

// A command that asks for many names which this machine cannot look up does not fill the terminal.
func TestManyFailedLookups(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	e := &Execution{App: &cli.App{Stderr: &said}}
	for i := range 50 {
		e.report.Network = append(e.report.Network, audit.NetworkUse{Name: fmt.Sprintf("n%d.example", i), Allowed: true, Reason: "lookup failed"})
	}
	e.printDenials()
	if lines := strings.Count(said.String(), "\n"); lines != maxHints+1 || !strings.Contains(said.String(), "could not look up 48 more names") {
		t.Errorf("%d lines: %s", lines, &said)
	}
}
