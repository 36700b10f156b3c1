package denial

import (
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

// What a trace has is looked up as words are, and nothing is told that the table does not explain.
func TestTraced(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		call shared.TracedCall
		want []string
	}{
		"not shown":          {shared.TracedCall{Wants: "read", Target: "/srv/lib", Error: "ENOENT"}, []string{`read /srv/lib by bind_paths: add "/srv/lib" to bind_paths?`}},
		"a program":          {shared.TracedCall{Wants: "execute", Target: "/tools/bin/x", Error: "ENOENT"}, []string{`execute /tools/bin/x by bind_paths: add "/tools/bin/x" to bind_paths?`}},
		"hidden":             {shared.TracedCall{Wants: "read", Target: "/workspace/keys/id", Error: "ENOENT"}, []string{"read /workspace/keys/id by deny_paths?"}},
		"credentials":        {shared.TracedCall{Wants: "read", Target: "/home/me/.ssh/id", Error: "ENOENT"}, []string{"read /home/me/.ssh/id?"}},
		"not written":        {shared.TracedCall{Wants: "write", Target: "/workspace/.vscode/x", Error: "EROFS"}, []string{`write /workspace/.vscode/x by protect_paths_except: add ".vscode" to protect_paths_except?`}},
		"a socket":           {shared.TracedCall{Wants: "connect", Target: "/run/app.sock", Error: "ENOENT"}, []string{`connect /run/app.sock by unix_sockets?`}},
		"a port":             {shared.TracedCall{Wants: "connect", Target: "127.0.0.1:5432", Error: "ECONNREFUSED"}, []string{"connect localhost:5432 by host_ports: add 5432 to host_ports?"}},
		"an address":         {shared.TracedCall{Wants: "connect", Target: "192.0.2.1:443", Error: "ENETUNREACH"}, []string{"connect 192.0.2.1:443 by network?"}},
		"a name":             {shared.TracedCall{Wants: "connect", Target: "a.example:443", Error: "ENETUNREACH"}, []string{"connect a.example:443 by network: network = [\"a.example\"]?"}},
		"localhost":          {shared.TracedCall{Wants: "connect", Target: "localhost:5432", Error: "ECONNREFUSED"}, []string{"connect localhost:5432 by host_ports: add 5432 to host_ports?"}},
		"no port":            {call: shared.TracedCall{Wants: "connect", Target: "a.example:x", Error: "ENETUNREACH"}},
		"nowhere":            {call: shared.TracedCall{Wants: "read", Target: "/none", Error: "ENOENT"}},
		"nowhere inside":     {call: shared.TracedCall{Wants: "read", Target: "/workspace/none", Error: "ENOENT"}},
		"its own mode":       {call: shared.TracedCall{Wants: "write", Target: "/workspace/mine", Error: "EACCES"}},
		"a port of nobody's": {call: shared.TracedCall{Wants: "connect", Target: "[::1]:9", Error: "ECONNREFUSED"}},
		"no address":         {call: shared.TracedCall{Wants: "connect", Target: "x", Error: "ECONNREFUSED"}},
		"the root":           {call: shared.TracedCall{Wants: "read", Target: "/..", Error: "ENOENT"}},
	} {
		for _, succeeded := range []bool{true, false} {
			// A command's words count where it failed, and only there.
			f := &Failure{Command: shared.Command{Args: []string{"true"}, Dir: "/workspace"}, Traced: []shared.TracedCall{tt.call}, Succeeded: succeeded}
			check(t, name, f, tt.want)
		}
	}
	// The address of a nameserver stands for the name that the command wants.
	check(t, "a nameserver", &Failure{Command: shared.Command{Args: []string{"curl", "https://a.example/"}}, Succeeded: true,
		Traced: []shared.TracedCall{{Wants: "connect", Target: "10.0.0.53:53", Error: "ENETUNREACH"}}}, []string{`connect a.example by network: network = ["a.example"]?`})
	for target, want := range map[string][]string{
		"a.example:443": nil, "A.Example.:443": nil,
		"b.example:443":  {`connect b.example:443 by network: add "b.example" to network?`},
		"a.example:22":   {`connect a.example:22 by network: add "a.example:22" to network?`},
		"192.0.2.1:443":  {"connect 192.0.2.1:443 by network?"},
		"198.18.0.1:443": nil, // which stands for a name
	} {
		spec := someSpec()
		spec.Network = shared.Network{Mode: shared.NetworkNames, Names: []string{"a.example"}}
		check(t, target, &Failure{Spec: spec, Succeeded: true, Command: shared.Command{Args: []string{"true"}}, Traced: []shared.TracedCall{{Wants: "connect", Target: target, Error: "ENETUNREACH"}}}, want)
	}
	check(t, "words of a success", &Failure{Command: shared.Command{Args: []string{"cat", "/data/set.csv"}, Dir: "/workspace"}, Succeeded: true,
		Stderr: []byte("cat: /srv/lib: No such file or directory\n")}, nil)
}
