package config

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/sbxhost/sbxhost/internal/source"
	"github.com/sbxhost/sbxhost/shared"
)

func seeds(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.hcl")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range append(files, "sample.hcl", "default.hcl") {
		src, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Add([]byte("sandbox \"a\" {\n  env = { for k in [1] : k => k... }\n}"))
	f.Add([]byte("sandbox \"a\" {\n  bind_paths = toset([{ host = 1 }, null])\n}"))
	f.Add([]byte("sandbox \"a\" {\n  env = { (null) = 1, ([]) = 2, (1) = 3 }\n}"))
}

// Whatever the text is: no panic, a place for every diagnostic, no options
// from a file with errors, and nothing that a terminal acts on.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > 4096 || bytes.Contains(src, []byte("for")) && len(src) > 512 || bytes.ContainsAny(src, "eE") && hugeNumber(src) {
			return // may take long, which is documented
		}
		file, diags := Parse("/x/fuzz.hcl", src, testInput())
		for _, d := range diags {
			if d.Subject == nil || d.Subject.Filename != "/x/fuzz.hcl" || d.Subject.Start.Byte > len(src) || d.Summary == "" || d.Detail == "" {
				t.Errorf("a diagnostic without a place or a text: %+v", d)
			}
		}
		var out bytes.Buffer
		if err := source.Write(&out, diags, false, 80); err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny(out.Bytes(), "\x1b\x00\x07\r\x7f") {
			t.Errorf("a control character is written: %q", out.Bytes())
		}
		opts, again := file.Options()
		if diags.HasErrors() && (!again.HasErrors() || opts.Sandboxes != nil) {
			t.Error("a file with errors gave options")
		}
		for _, name := range file.Names() {
			file.Locate(name, "bind_paths[0].host")
			_, more := file.EngineOptions(name, testSchema)
			_ = source.Write(io.Discard, more, true, 20)
			file.Diagnose(name, &shared.Error{Attribute: "config.image[1]"})
		}
	})
}

// hugeNumber is true of numbers such as 1e99999, which have as many digits as
// they say once they are text.
func hugeNumber(src []byte) bool {
	digits, exponent := 0, false
	for _, c := range src {
		switch {
		case c == 'e' || c == 'E':
			digits, exponent = 0, true
		case c >= '0' && c <= '9':
			if digits++; exponent && digits > 3 {
				return true
			}
		case c != '+' && c != '-':
			digits, exponent = 0, false
		}
	}
	return false
}
