package seatbelt

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ pattern, yes, no string }{
		{"/w/secrets", "/w/secrets /w/secrets/x /W/SECRETS /System/Volumes/Data/w/secrets", "/w/secret /w/secretss /x/w/secrets /w"},
		{"/w/secrets/", "/w/secrets /w/secrets/x", "/w/secretsx"},
		{"/w/**/.env", "/w/.env /w/a/.env /w/a/b/.ENV /w/.env/x", "/w/a.env /w/.envs /.env /w"},
		{"/w/**/.env.*", "/w/.env.local /w/a/.env.", "/w/.env /w/.envrc"},
		{"/w/*.pem", "/w/a.pem /w/.pem /w/a.pem/x", "/w/a/b.pem /w/apem"},
		{"/w/secrets/**", "/w/secrets/a /w/secrets/a/b", "/w/secrets"},
		{"/w/a/**/b", "/w/a/b /w/a/x/b /w/a/x/y/b", "/w/b /w/a/x/y"},
		{"/w/key[0-9].txt", "/w/key0.txt /w/KEY9.TXT /w/keya.txt", "/w/key.txt /w/key10.txt"},
		{"/w/[a-c]x", "/w/ax /w/Bx /w/dx", "/w/x"},
		{"/w/[!a-c]x", "/w/dx /w/éx", "/w/x"},
		{"/w/.env.[!ep]*", "/w/.env.x /w/.env.example /w/.env.é", "/w/.env."},
		{"/w/a[!-._]", "/w/ab /w/a0 /w/a-", "/w/a"},
		{"/w/?", "/w/a /w/é", "/w/ab /w/"},
		{`/w/what\?\*\[`, "/w/what?*[", "/w/whatx*["},
		{"/w/a+b(c).$^|", "/w/a+b(c).$^|", "/w/aab(c).$^| /w/a+b(c)x$^|"},
		{"/w/straße", "/w/straße /w/STRASSE", "/w/stre"},
		{"/w/office", "/w/office /w/oﬃce /w/oﬀice /w/ofﬁce", "/w/ofice"},
		{"/w/class", "/w/class /w/claß /w/claſſ /w/CLASS", "/w/clas"},
		{"/w/tests", "/w/tests /w/teﬆs /w/teſts", "/w/test"},
		{"/w/Café", "/w/Café /w/cafe\u0301 /w/CAFÉ", "/w/Ca"},
		{"/w/cafe\u0301", "/w/Café /w/cafe\u0301", "/w/ca"},
		{"/w/kube", "/w/kube /w/\u212aube", "/w/ube"},
		{"//w/./a", "/w/a", "/w/b"},
	} {
		p, err := parsePattern(tt.pattern)
		if err != nil {
			t.Errorf("%s: %v", tt.pattern, err)
			continue
		}
		re, err := regexp.Compile(p.regex(true))
		if err != nil {
			t.Errorf("%s: %v", tt.pattern, err)
			continue
		}
		for want, paths := range map[bool]string{true: tt.yes, false: tt.no} {
			for path := range strings.SplitSeq(paths, " ") {
				if got := re.MatchString(path); got != want {
					t.Errorf("%s matches %q: %v\n%s", tt.pattern, path, got, p.regex(true))
				}
			}
		}
	}
}

func TestPatternsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "/", ".", "a/../b", "[a", "[", "[]", "[z-a]", `a\`, `[\`, "a\x00b", "*.{pem,key}", "a}", "a\xff", strings.Repeat("a/", 1000)} {
		if p, err := parsePattern(text); err == nil {
			t.Errorf("%q is %+v", text, p)
		}
	}
}

func TestMovable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/w/a/b": "", "/w/*": "", "/w/**/x": "**/x", "/w/*/a/b": "**/a/b", "**/a/**/b": "**/b", "a/**": "",
	} {
		p, err := parsePattern(text)
		if err != nil {
			t.Fatal(err)
		}
		tail, ok := p.movable()
		if ok != (want != "") {
			t.Errorf("%s: %v", text, ok)
			continue
		}
		if ok {
			expected, err := parsePattern(want)
			if err != nil {
				t.Fatal(err)
			}
			if got := tail.regex(true); got != expected.regex(true) {
				t.Errorf("%s: %s", text, got)
			}
		}
	}
}

// FuzzPattern holds that an expression cannot leave its literal, is one that
// the kernel's matcher takes, and matches the name that it was made of.
func FuzzPattern(f *testing.F) {
	for _, seed := range []string{"/w/secrets", "**/.env", `a\"b`, `"#"`, "[!a-z]", `\\`, "é\u0301", "ﬃ", "sssst", "a^b", "(", "{", `[\]]`, "\n", "k\u0301"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePattern(text)
		if err == nil {
			expr := p.under("/w").regex(true)
			for _, c := range []byte(expr) {
				if c < ' ' || c > '~' || c == '"' || c == '\\' {
					t.Fatalf("%q becomes %q", text, expr)
				}
			}
			source := "(version 1)\n(deny default)\n(allow file-read* " + regex(expr) + ")"
			profile, err := parseSBPL(source, nil)
			if err != nil || len(profile.Rules) != 2 {
				t.Fatalf("%q becomes %q: %v", text, expr, err)
			}
			if profile.Decide(asDocumented, sbplAccess{Operation: "file-read-data", Path: "/x"}).Allow {
				t.Fatalf("%q reaches beyond its root: %q", text, expr)
			}
		}
		if !utf8.ValidString(text) || strings.ContainsAny(text, "\x00/") || text == "" || text == "." || text == ".." {
			return
		}
		expr := "^" + foldLiteral(text) + "$"
		re, err := regexp.Compile("(?s)" + expr)
		if err != nil {
			t.Fatalf("%q becomes %q: %v", text, expr, err)
		}
		for _, name := range []string{text, strings.ToUpper(text), strings.ToLower(text), foldAPFS(text)} {
			if utf8.ValidString(name) && !re.MatchString(name) {
				t.Fatalf("%q becomes %q, which does not match %q", text, expr, name)
			}
		}
	})
}
