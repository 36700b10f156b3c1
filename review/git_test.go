package review

import (
	"strings"
	"testing"
)

func TestMergeConfig(t *testing.T) {
	t.Parallel()
	const host = "[core]\n\tbare = false ; as git writes it\n[remote \"origin\"]\n\turl = https://a.example/x\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n"
	for _, tt := range []struct {
		name, theirs, want, left string
	}{
		{"nothing", host, "", ""},
		{"a branch", host + "[branch \"a b\\\"\"]\n\tremote = origin\n\tmerge = refs/heads/x\n",
			host + "[branch \"a b\\\"\"]\n\tremote = \"origin\"\n[branch \"a b\\\"\"]\n\tmerge = \"refs/heads/x\"\n", ""},
		{"a name", host + "[User]\n\tName = A \\\n B # c\n", host + "[user]\n\tname = \"A  B\"\n", ""},
		{"another remote", host + "[remote \"evil\"]\n\turl = ext::sh\n\tfetch = +refs/heads/*:refs/x/*\n", "", "remote.evil.fetch remote.evil.url"},
		{"another address", strings.Replace(host, "a.example", "b.example", 1), "", "remote.origin.url"},
		{"programs", host + "[core]\n\tfsmonitor = ./x\n\tsshCommand = y\n[alias]\n\tst = !z\n[filter \"f\"]\n\tclean = q\n", "", "alias.st core.fsmonitor core.sshcommand filter.f.clean"},
		{"both", host + "[include]\n\tpath = x\n[pull]\n\trebase = true\n", host + "[pull]\n\trebase = \"true\"\n", "include.path"},
		{"a remote that is an address", strings.Replace(host, "remote = origin", "remote = ext::sh -c x", 1), "", "branch.main.remote"},
		{"what is gone", strings.Replace(host, "[branch \"main\"]\n\tremote = origin\n", "", 1), strings.Replace(host, "\tremote = origin\n", "", 1), ""},
		{"an address that is gone", strings.Replace(host, "\turl = https://a.example/x\n", "", 1), "", "remote.origin.url"},
		{"where it is fetched to", strings.Replace(host, "refs/remotes/origin/*", "refs/remotes/o/*", 1),
			strings.Replace(host, "\tfetch = +refs/heads/*:refs/remotes/origin/*\n", "", 1) + "[remote \"origin\"]\n\tfetch = \"+refs/heads/*:refs/remotes/o/*\"\n", ""},
		{"a line in a value", host + "[user]\n\tname = \"a\\n[core]\\nfsmonitor = x\"\n", "", "user.name"},
	} {
		merged, left, err := mergeConfig(host, tt.theirs)
		if err != nil || string(merged) != tt.want || strings.Join(left, " ") != tt.left {
			t.Errorf("%s: %v, left %q\ngot:\n%s\nwant:\n%s", tt.name, err, left, merged, tt.want)
		}
		if merged != nil {
			if again, _, err := mergeConfig(string(merged), string(merged)); err != nil || again != nil {
				t.Errorf("%s: what was made of it: %v", tt.name, err)
			}
		}
	}
	for _, odd := range []string{"[core] bare = x\n", "x = y\n", "[core\n", "[a \"b\n", "[core]\n\t1x = y\n", "[core]\n\tx = \"y\n", "[core]\n\tx = \\q\n", "[a.b \"c\"]\n"} {
		if _, err := parseConfig(odd); err == nil {
			t.Errorf("%q is understood", odd)
		}
	}
}

// What git writes is read as git reads it, whatever a file has.
func FuzzMergeConfig(f *testing.F) {
	f.Add("[user]\n\tname = x\n", "[user]\n\tname = \"y\" ; z\n[alias]\n\ta = !b\n")
	f.Add("[branch \"x\"]\n\tremote = .\n", "[BRANCH \"x\"]\r\n remote\n")
	f.Fuzz(func(t *testing.T, ours, theirs string) {
		merged, left, err := mergeConfig(ours, theirs)
		if err != nil || merged == nil {
			return
		}
		// All that differs from the host's is harmless, and all that is left out is the host's.
		again, more, err := mergeConfig(string(merged), theirs)
		if err != nil || again != nil || strings.Join(more, " ") != strings.Join(left, " ") {
			t.Errorf("%q of %q and %q: %v, %q for %q", merged, ours, theirs, err, more, left)
		}
	})
}
