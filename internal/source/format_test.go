package source_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/internal/source"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestFormatGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/format/*.hcl")
	if err != nil || len(files) == 0 {
		t.Fatal("no test files", err)
	}
	for _, path := range files {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, diags := source.Format(path, src)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		golden := strings.TrimSuffix(path, ".hcl") + ".golden"
		if *update {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(golden); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs (go test -update rewrites it), %v\n--- got\n%s\n--- want\n%s", golden, err, got, want)
		}
		again, _ := source.Format(path, got)
		if !bytes.Equal(got, again) {
			t.Errorf("%s: formatting twice differs:\n%s", path, again)
		}
	}
}

func TestSampleIsFormatted(t *testing.T) {
	t.Parallel()
	got, diags := source.Format("sample.hcl", config.Sample())
	if diags.HasErrors() || !bytes.Equal(got, config.Sample()) {
		t.Errorf("sample.hcl is not laid out as Format does: %v\n%s", diags, got)
	}
}

func TestFormatKeepsCommentsAndEnds(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"":                                 "",
		"# x":                              "# x\n",
		"a=1":                              "a = 1\n",
		"a=1\n\n\n":                        "a = 1\n\n\n",
		"a=1 # x\n":                        "a = 1 # x\n",
		"b {\n\n}\n":                       "b {\n\n}\n",
		"b {a=1}\n":                        "b { a = 1 }\n",
		"a=[\n1,\n]\nbb=2\nc=3\n":          "a = [\n  1,\n]\nbb = 2\nc  = 3\n",
		"x = \"${ a }  b\"\n":              "x = \"${a}  b\"\n",
		"a = 1\r\nbb = 2\r\n":              "a  = 1\r\nbb = 2\r\n",
		"a = [{\nb = 1\n}]\nc = d({\n})\n": "a = [{\n  b = 1\n}]\nc = d({\n})\n",
	} {
		got, diags := source.Format("x.hcl", []byte(src))
		if diags.HasErrors() || string(got) != want {
			t.Errorf("Format(%q) = %q %v, want %q", src, got, diags, want)
		}
	}
}

// Formatting keeps what a text means, and has nothing to do the second time.
func FuzzFormat(f *testing.F) {
	for _, pattern := range []string{"testdata/format/*.hcl", "../../config/testdata/*/*.hcl"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal("no seeds", err)
		}
		for _, path := range files {
			src, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		once, diags := source.Format("/x/fuzz.hcl", src)
		if diags.HasErrors() {
			if !bytes.Equal(once, src) {
				t.Error("a file with errors was changed")
			}
			return
		}
		twice, diags := source.Format("/x/fuzz.hcl", once)
		if diags.HasErrors() || !bytes.Equal(once, twice) {
			t.Errorf("not stable: %q, then %q, %v", once, twice, diags)
		}
	})
}
