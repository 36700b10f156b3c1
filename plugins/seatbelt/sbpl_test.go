package seatbelt

import (
	"strings"
	"testing"
)

// What others have published of profiles that they ran, each with what came of
// it on a Mac.
func TestPublishedOutcomes(t *testing.T) {
	t.Parallel()
	const (
		preamble = "(version 1)\n(deny default)\n"
		path     = "/Users/me/p/.env"
	)
	for _, tt := range []struct {
		name, source, rules, operation, path string
		allow                                bool
	}{
		{"a later wildcard deny does not take back a specific allow",
			"https://github.com/GreyhavenHQ/greywall/pull/20",
			`(allow file-read-data (subpath "/")) (deny file-read* (literal "/Users/me/p/.env"))`, "file-read-data", path, true},
		{"a deny of the same operation does",
			"https://github.com/GreyhavenHQ/greywall/pull/20",
			`(allow file-read-data (subpath "/")) (deny file-read-data (literal "/Users/me/p/.env"))`, "file-read-data", path, false},
		{"a wildcard allow does not override an earlier specific deny",
			"https://github.com/nolabs-ai/nono/pull/697",
			`(deny file-read-data (subpath "/Users/me/p")) (allow file-read* (literal "/Users/me/p/.env"))`, "file-read-data", path, false},
		{"a specific allow does",
			"https://github.com/nolabs-ai/nono/pull/697",
			`(deny file-read-data (subpath "/Users/me/p")) (allow file-read-data (literal "/Users/me/p/.env"))`, "file-read-data", path, true},
		{"allow, then deny: denied",
			"https://github.com/SII-Holos/synergy/pull/1440",
			`(allow file-read* (subpath "/Users/me/p")) (deny file-read* (subpath "/Users/me/p"))`, "file-read-data", path, false},
		{"deny, then allow: allowed",
			"https://github.com/SII-Holos/synergy/pull/1440",
			`(deny file-read* (subpath "/Users/me/p")) (allow file-read* (subpath "/Users/me/p"))`, "file-read-data", path, true},
		{"shallow deny, deeper allow: allowed",
			"https://github.com/microsoft/mxc/pull/754",
			`(deny file-write* (subpath "/Users/me")) (allow file-write* (subpath "/Users/me/p"))`, "file-write-data", path, true},
		{"a deny of reads does not stop a rename",
			"https://github.com/anthropic-experimental/sandbox-runtime/issues/8",
			`(allow file-write* (subpath "/Users/me")) (deny file-read* (subpath "/Users/me/p"))`, "file-write-unlink", path, true},
		{"the root directory alone does not open what is in it",
			"https://github.com/jdx/mise/pull/12263",
			`(allow file-read-data (literal "/"))`, "file-read-data", path, false},
		{"reading and executing are apart",
			"https://github.com/LeGambiArt/arapuca/pull/28",
			`(allow file-read* (subpath "/Users/me"))`, "process-exec", path, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := parseSBPL(preamble+tt.rules, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Decide(asDocumented, sbplAccess{Operation: tt.operation, Path: tt.path}); got.Allow != tt.allow {
				t.Errorf("%s: allow is %v by %v", tt.source, got.Allow, got.Rule)
			}
		})
	}
}

// The kernel goes by the file that is found: a rule for a link of the system's
// is about nothing.
func TestPublishedPaths(t *testing.T) {
	t.Parallel()
	const hacktricks = "https://github.com/HackTricks-wiki/hacktricks/blob/master/src/macos-hardening/macos-security-and-privilege-escalation/macos-security-protections/macos-sandbox/README.md"
	for _, tt := range []struct {
		source, rules, operation, name string
		allow                          bool
	}{
		{"https://github.com/anthropic-experimental/sandbox-runtime/issues/596", `(allow file-write* (subpath "/tmp"))`, "file-write-create", "/tmp/x/new", false},
		{"https://github.com/anthropic-experimental/sandbox-runtime/issues/596", `(allow file-write* (subpath "/tmp"))`, "file-write-create", "/private/tmp/x/new", false},
		{"https://github.com/anthropic-experimental/sandbox-runtime/issues/596", `(allow file-write* (subpath "/private/tmp"))`, "file-write-create", "/tmp/x/new", true},
		{hacktricks, `(allow file* (literal "/tmp/hacktricks.txt"))`, "file-write-create", "/tmp/hacktricks.txt", false},
		{hacktricks, `(allow file* (literal "/private/tmp/hacktricks.txt"))`, "file-write-create", "/tmp/hacktricks.txt", true},
		{hacktricks, `(allow file* (literal "/tmp/hacktricks.txt"))`, "process-exec", "/usr/bin/touch", false},
		{hacktricks, `(allow process* (literal "/usr/bin/touch"))`, "process-exec", "/usr/bin/touch", true},
		{hacktricks, `(allow process* (literal "/usr/bin/touch"))`, "file-read-data", "/", false},
		{"https://github.com/archie-judd/agent-sandbox.nix/issues/82", `(allow file-read* (subpath "/Users/me/link"))`, "file-read-data", "/Users/me/link/x", false},
	} {
		p, err := parseSBPL("(version 1)\n(deny default)\n"+tt.rules, nil)
		if err != nil {
			t.Fatal(err)
		}
		files := sbplFiles{Links: map[string]string{"/Users/me/link": "/Volumes/x"}}
		for _, s := range []sbplPrecedence{asDocumented, byLastMatch} {
			if got := p.Decide(s, sbplAccess{Operation: tt.operation, Path: files.Resolve(tt.name, true)}); got.Allow != tt.allow {
				t.Errorf("%s: %s: %s of %s: allow is %v by %v", tt.source, tt.rules, tt.operation, tt.name, got.Allow, got.Rule)
			}
		}
	}
}

// A filter for the local end says nothing of where an outbound connection leads.
func TestPublishedConnections(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		source, rules, host string
		allow               bool
	}{
		{"https://github.com/anthropic-experimental/sandbox-runtime/issues/131", `(allow network-outbound (local ip "localhost:*"))`, "64.233.180.139", true},
		{"https://github.com/anthropic-experimental/sandbox-runtime/issues/225", `(allow network-outbound (local ip "*:*"))`, "example.com", true},
		{"https://github.com/lynaghk/sandboxtron/issues/3", `(allow network-bind (local ip "*:3000")) (allow network-inbound) (allow network-outbound (remote ip "localhost:5432"))`, "142.250.179.132", false},
	} {
		p, err := parseSBPL("(version 1)\n(deny default)\n"+tt.rules, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := p.Decide(asDocumented, sbplAccess{Operation: "network-outbound", SocketDomain: "AF_INET", Host: tt.host, Port: "443"})
		if got.Allow != tt.allow {
			t.Errorf("%s: %s to %s: allow is %v by %v", tt.source, tt.rules, tt.host, got.Allow, got.Rule)
		}
	}
}

// An unfiltered rule does not override a filtered one, whatever their order, as
// https://github.com/microsoft/mxc/pull/754 has measured of network-outbound.
func TestUnfilteredIsADefault(t *testing.T) {
	t.Parallel()
	rules := []string{`(allow network-outbound)`, `(deny network-outbound (literal "/private/var/run/x"))`, `(deny default)`}
	permute(rules, func(order []string) {
		p, err := parseSBPL("(version 1)\n"+strings.Join(order, "\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if p.Decide(asDocumented, sbplAccess{Operation: "network-outbound", Path: "/private/var/run/x", SocketDomain: "AF_UNIX"}).Allow {
			t.Errorf("%v: the socket is reachable", order)
		}
		if !p.Decide(asDocumented, sbplAccess{Operation: "network-outbound", SocketDomain: "AF_INET", Host: "example.com", Port: "443"}).Allow {
			t.Errorf("%v: the network is not", order)
		}
	})
}

// A specific operation decides before its wildcard in every order.
func TestSpecificInEveryOrder(t *testing.T) {
	t.Parallel()
	rules := []string{
		`(allow file-write* (subpath "/w"))`, `(deny file-write-unlink (literal "/w/a"))`,
		`(allow file* (subpath "/w"))`, `(deny default)`,
	}
	permute(rules, func(order []string) {
		p, err := parseSBPL("(version 1)\n"+strings.Join(order, "\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if p.Decide(asDocumented, sbplAccess{Operation: "file-write-unlink", Path: "/w/a"}).Allow {
			t.Errorf("%v: it can be removed", order)
		}
		if !p.Decide(asDocumented, sbplAccess{Operation: "file-write-data", Path: "/w/a"}).Allow {
			t.Errorf("%v: it cannot be written", order)
		}
	})
}

func permute(items []string, visit func([]string)) {
	var step func(n int)
	step = func(n int) {
		if n == len(items) {
			visit(items)
			return
		}
		for i := n; i < len(items); i++ {
			items[n], items[i] = items[i], items[n]
			step(n + 1)
			items[n], items[i] = items[i], items[n]
		}
	}
	step(0)
}

func TestLastMatch(t *testing.T) {
	t.Parallel()
	p, err := parseSBPL(`(version 1) (deny default) (allow file-read-data (subpath "/")) (deny file-read* (literal "/x"))`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p.Decide(byLastMatch, sbplAccess{Operation: "file-read-data", Path: "/x"}).Allow || !p.Decide(byLastMatch, sbplAccess{Operation: "file-read-data", Path: "/y"}).Allow {
		t.Error("the last match does not win")
	}
	if v := (&sbplProfile{}).Decide(byLastMatch, sbplAccess{Operation: "signal"}); v.Allow || v.Rule != nil {
		t.Error("an empty profile allows")
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	parameters := map[string]string{"A": "/a", "HOSTILE": `/x") (allow default) ("`}
	for _, tt := range []struct {
		filter string
		access sbplAccess
		match  bool
	}{
		{`(literal (param "A"))`, sbplAccess{Path: "/a"}, true},
		{`(literal (param "A"))`, sbplAccess{Path: "/a/b"}, false},
		{`(subpath (string-append (param "A") "/b"))`, sbplAccess{Path: "/a/b/c"}, true},
		{`(subpath (param "A"))`, sbplAccess{Path: "/ab"}, false},
		{`(subpath (param "HOSTILE"))`, sbplAccess{Path: "/y"}, false},
		{`(subpath (param "HOSTILE"))`, sbplAccess{Path: parameters["HOSTILE"] + "/z"}, true},
		{`(prefix "/a")`, sbplAccess{Path: "/ab"}, true},
		{`(regex #"^/a\.b$")`, sbplAccess{Path: "/a.b"}, true},
		{`(regex #"^/a\.b$")`, sbplAccess{Path: "/axb"}, false},
		{`(require-not (literal "/a"))`, sbplAccess{Path: "/b"}, true},
		{`(require-all (regex #"^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty"))`, sbplAccess{Path: "/dev/ttys003"}, false},
		{`(require-all (regex #"^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty"))`, sbplAccess{Path: "/dev/ttys003", Extension: "com.apple.sandbox.pty"}, true},
		{`(require-any (literal "/a") (vnode-type DIRECTORY))`, sbplAccess{Path: "/c", VnodeType: "DIRECTORY"}, true},
		{`(remote ip "localhost:80")`, sbplAccess{SocketDomain: "AF_INET", Host: "localhost", Port: "80"}, true},
		{`(remote ip "localhost:80")`, sbplAccess{SocketDomain: "AF_INET", Host: "example.com", Port: "80"}, false},
		{`(remote ip "*:*")`, sbplAccess{SocketDomain: "AF_UNIX", Path: "/s"}, false},
		{`(remote unix-socket (subpath "/t"))`, sbplAccess{SocketDomain: "AF_UNIX", Path: "/t/s"}, true},
		// A local filter on outbound connections admits them all.
		{`(local ip "localhost:*")`, sbplAccess{Operation: "network-outbound", SocketDomain: "AF_INET", Host: "example.com", Port: "80"}, true},
		{`(target same-sandbox)`, sbplAccess{Target: "others"}, false},
		{`(target same-sandbox)`, sbplAccess{Target: "self"}, true},
		{`(sysctl-name-prefix "hw.")`, sbplAccess{Sysctl: "hw.ncpu"}, true},
		{`(global-name "com.apple.x")`, sbplAccess{Service: "com.apple.xy"}, false},
		{`(require-all (socket-domain AF_SYSTEM) (socket-protocol 2))`, sbplAccess{SocketDomain: "AF_SYSTEM", SocketProtocol: "1"}, false},
	} {
		p, err := parseSBPL(`(version 1) (allow network-outbound `+tt.filter+`)`, parameters)
		if err != nil {
			t.Errorf("%s: %v", tt.filter, err)
			continue
		}
		tt.access.Operation = "network-outbound"
		if got := p.Decide(asDocumented, tt.access).Allow; got != tt.match {
			t.Errorf("%s on %+v: %v", tt.filter, tt.access, got)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, source := range []string{
		``, `(version 2)`, `(deny default)`, `(version 1) (deny`, `(version 1) )`, `(version 1) (allow)`, `(version 1) (allow nonsense)`,
		`(version 1) (allow file-read* (nonsense "/"))`, `(version 1) (allow file-read* (subpath "a"))`, `(version 1) (allow file-read* (subpath "/a/"))`,
		`(version 1) (allow file-read* (literal (param "NONE")))`, `(version 1) (allow file-read* (regex "a"))`, `(version 1) (allow file-read* (regex #"("))`,
		`(version 1) (allow file-read* "x)`, `(version 1) (allow file-read* #"x)`, `(version 1) (import "system.sb")`,
		`(version 1) (allow network-outbound (remote ip "example.com:80"))`, `(version 1) (allow file-read* (vnode-type CHAIR))`,
		`(version 1) (deny default (with no-log))`, `(version 1) ` + strings.Repeat("(", 100),
	} {
		if p, err := parseSBPL(source, nil); err == nil {
			t.Errorf("%q is taken: %v", source, p.Rules)
		}
	}
}

func TestSyntax(t *testing.T) {
	t.Parallel()
	p, err := parseSBPL("(version 1) ; a comment with ) and \"\n(deny default (with message \"a;b\\\"c\"))", nil)
	if err != nil || len(p.Rules) != 1 || p.Rules[0].Message != `a;b"c` || p.Rules[0].Line != 2 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestChain(t *testing.T) {
	t.Parallel()
	for operation, want := range map[string]string{
		"file-read-data": "file-read-data file-read-data* file-read* file* default",
		"signal":         "signal signal* default",
		"process-exec":   "process-exec process-exec* process* default",
		"file-read*":     "file-read* file* default",
	} {
		if got := strings.Join(coveringOperations(operation), " "); got != want {
			t.Errorf("%s: %s", operation, got)
		}
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	f := &sbplFiles{
		Links:   map[string]string{"/Users/me/link": "/private/tmp/x", "/Users/me/rel": "p", "/Users/me/loop": "loop"},
		Entries: []string{"/Users", "/Users/me", "/Users/me/p", "/Users/me/p/Café"},
		Volume:  map[string]string{"/.vol/1/42": "/Users/me/p"},
	}
	for name, want := range map[string]string{
		"/tmp/a":                               "/private/tmp/a",
		"/var/db/../run":                       "/private/var/run",
		"/home/me":                             "/System/Volumes/Data/home/me",
		"/System/Volumes/Data/Users/me/p":      "/Users/me/p",
		"/System/Volumes/Data/private/tmp":     "/private/tmp",
		"/System/Volumes/Data/Users/me/link/y": "/private/tmp/x/y",
		"/Users/me/rel/new":                    "/Users/me/p/new",
		"/users/ME/P/cafe\u0301":               "/Users/me/p/Café",
		"/.vol/1/42/New":                       "/Users/me/p/New",
		"/Users/me/loop":                       "/Users/me/loop",
	} {
		if got := f.Resolve(name, true); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := f.Resolve("/Users/me/link", false); got != "/Users/me/link" {
		t.Errorf("the link itself is %s", got)
	}
	if foldAPFS("Straße") != foldAPFS("STRASSE") || foldAPFS("ﬁle") != foldAPFS("FILE") || foldAPFS("a") == foldAPFS("b") {
		t.Error("Fold")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`(version 1) (deny default) (allow file-read* (regex #"^/a") (with message "x"))`)
	f.Add(`(version 1) (allow file-read* (require-not (literal "/")))`)
	f.Add("(version 1) ; x\n(deny file-write* (subpath (string-append \"/a\" (param \"A\"))))")
	f.Fuzz(func(t *testing.T, source string) {
		p, err := parseSBPL(source, map[string]string{"A": "/a"})
		if err != nil {
			return
		}
		p.Decide(asDocumented, sbplAccess{Operation: "file-read-data", Path: "/a"})
		p.Decide(byLastMatch, sbplAccess{Operation: "file-read-data", Path: "/a"})
	})
}
