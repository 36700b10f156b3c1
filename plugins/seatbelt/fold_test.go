package seatbelt

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSpellings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ path, yes, no string }{
		{"/w/secrets", "/w/secrets /w/secrets/x /W/SECRETS /System/Volumes/Data/w/secrets", "/w/secret /w/secretss /x/w/secrets /w"},
		{"/w/what?*[", "/w/what?*[", "/w/whatx*["},
		{"/w/a+b(c).$^|", "/w/a+b(c).$^|", "/w/aab(c).$^| /w/a+b(c)x$^|"},
		{"/w/straße", "/w/straße /w/STRASSE", "/w/stre"},
		{"/w/office", "/w/office /w/oﬃce /w/oﬀice /w/ofﬁce", "/w/ofice"},
		{"/w/class", "/w/class /w/claß /w/claſſ /w/CLASS", "/w/clas"},
		{"/w/tests", "/w/tests /w/teﬆs /w/teſts", "/w/test"},
		{"/w/Café", "/w/Café /w/cafe\u0301 /w/CAFÉ", "/w/Ca"},
		{"/w/cafe\u0301", "/w/Café /w/cafe\u0301", "/w/ca"},
		{"/w/kube", "/w/kube /w/\u212aube", "/w/ube"},
	} {
		expr := spellings(tt.path, true)
		re, err := regexp.Compile(expr)
		if err != nil {
			t.Errorf("%s: %v", tt.path, err)
			continue
		}
		for want, paths := range map[bool]string{true: tt.yes, false: tt.no} {
			for path := range strings.SplitSeq(paths, " ") {
				if got := re.MatchString(path); got != want {
					t.Errorf("%s matches %q: %v\n%s", tt.path, path, got, expr)
				}
			}
		}
	}
}

// FuzzSpellings holds that an expression cannot leave its literal, is one that
// the kernel's matcher takes, and matches the name that it was made of.
func FuzzSpellings(f *testing.F) {
	for _, seed := range []string{"secrets", ".env", `a\"b`, `"#"`, "[!a-z]", `\\`, "é\u0301", "ﬃ", "sssst", "a^b", "(", "{", `[\]]`, "\n", "k\u0301"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || strings.ContainsAny(text, "\x00/") || text == "" || text == "." || text == ".." {
			return
		}
		expr := spellings("/w/"+text, true)
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
		re, err := regexp.Compile("(?s)" + expr)
		if err != nil {
			t.Fatalf("%q becomes %q: %v", text, expr, err)
		}
		for _, name := range []string{text, strings.ToUpper(text), strings.ToLower(text), foldAPFS(text)} {
			if utf8.ValidString(name) && !re.MatchString("/w/"+name) {
				t.Fatalf("%q becomes %q, which does not match %q", text, expr, name)
			}
		}
	})
}
