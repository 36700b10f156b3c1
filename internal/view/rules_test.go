package view

import (
	"strings"
	"testing"
)

// An exemption of what lies in a directory that is matched as a whole would have no effect.
func TestExemptions(t *testing.T) {
	t.Parallel()
	for texts, exempts := range map[string]bool{
		"**/*.txt !deep/**":                          true,
		"deep/** !deep/a.txt":                        true,
		"deep/** !deep/x/":                           true,
		"deep/** !deep/x/ !deep/x/a.txt":             true,
		"deep/** !deep/x/a.txt !deep/x/":             true,
		"deep/*/*.txt !deep/x/**":                    true,
		"deep/** !**/a.txt":                          true, // in deep itself
		"deep/** !deep/x/a.txt":                      false,
		"deep/** !deep/x/**":                         false,
		"deep/** !deep/x/ deep/x/y/ !deep/x/y/a.txt": false,
		"deep/ !deep/x/a.txt":                        false,
		"deep/*/ !deep/x/y/*.txt":                    false,
		"other/ **/x !deep/x/a.txt":                  false,
		"**/*.txt !deep/x/a.txt deep/*/":             false,
	} {
		list := strings.Fields(texts)
		for attribute, d := range map[string]Definition{"deny_paths": {DenyPaths: list}, "protect_paths": {ProtectPaths: list}} {
			_, err := newMachine("/w/deep/x/y/a.txt file").table(input(d))
			if exempts != (err == nil) || err != nil && (!strings.HasPrefix(err.Error(), attribute+"[") || !strings.Contains(err.Error(), "exempts nothing")) {
				t.Errorf("%s = %s: %v", attribute, texts, err)
			}
		}
	}
}

// A symlink through which a pattern could match what it does not match at its own place is refused.
func TestBehind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ pattern, link, end, want string }{
		{"**/.vscode/", "/w/p/.vscode", "/w/p/k", `"**/.vscode/" could match behind it`},
		{"**/.github/workflows/**", "/w/.github", "/w/c", `"**/.github/workflows/**" could`},
		{"**/.github/workflows/**", "/w/.github", "/w/none/yet", `"**/.github/workflows/**" could`},
		{"**/.github/workflows/**", "/w/.github", "/w/c/.github", ""},
		{"**/.github/workflows/**", "/w/github", "/w/c", ""},
		{"**/.kiro/*.json", "/w/.kiro", "/w/c", `"**/.kiro/*.json" could`},
		{"**/sec*/", "/w/secz", "/w/k", `"**/sec*/" could`},
		{"**/sec*/", "/w/s", "/w/secz/d", ""}, // all of that is matched
		{"**/sec*/ !**/secz/", "/w/secz", "/w/k", ""},
		{"keys/*.pem", "/w/keys", "/w/k", `"keys/*.pem" could`},
		{"keys/*.pem", "/w/k", "/w/keys", ""},
		{"keys/a/b.pem", "/w/keys/a", "/", `"keys/a/b.pem" could`},
	} {
		list := strings.Fields(tt.pattern)
		for attribute, d := range map[string]Definition{"deny_paths": {DenyPaths: list}, "protect_paths": {ProtectPaths: list}} {
			v, err := newMachine("/w/f file").table(input(d))
			if err != nil {
				t.Fatal(err)
			}
			_, _, behind := v.ReviewRules(nil)
			if got := behind(tt.link, tt.end); (got == "") != (tt.want == "") || tt.want != "" && !strings.HasPrefix(got, attribute+" "+tt.want) {
				t.Errorf("%s = %s: %s to %s: %q", attribute, tt.pattern, tt.link, tt.end, got)
			}
		}
	}
}

func TestSensitive(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{".env": true, ".env.production": true, ".env.example": true, ".envrc": false, "x.env": false, "env": false} {
		if got := Sensitive(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
