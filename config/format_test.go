package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
		got, diags := Format(path, src)
		if diags.HasErrors() {
			t.Fatal(render(t, diags))
		}
		golden(t, strings.TrimSuffix(path, ".hcl")+".golden", got)
		again, _ := Format(path, got)
		if !bytes.Equal(got, again) {
			t.Errorf("%s: formatting twice differs:\n%s", path, again)
		}
	}
}

func TestSampleIsFormatted(t *testing.T) {
	t.Parallel()
	got, diags := Format("sample.hcl", Sample())
	if diags.HasErrors() || !bytes.Equal(got, Sample()) {
		t.Errorf("sample.hcl is not laid out as Format does:\n%s%s", render(t, diags), got)
	}
}

func TestFormatKeepsCommentsAndEnds(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"":                                 "",
		"# x":                              "# x\n",
		"a=1":                              "a = 1\n",
		"a=1\n\n\n":                        "a = 1\n\n\n",
		"a=1 # x   \n":                     "a = 1 # x\n",
		"b {\n\n}\n":                       "b {\n\n}\n",
		"b {a=1}\n":                        "b { a = 1 }\n",
		"a=[\n1,\n]\nbb=2\nc=3\n":          "a = [\n  1,\n]\nbb = 2\nc  = 3\n",
		"x = \"${ a }  b\"\n":              "x = \"${ a }  b\"\n",
		"a = 1\r\nbb = 2\r\n":              "a  = 1\nbb = 2\n",
		"a = [{\nb = 1\n}]\nc = d({\n})\n": "a = [{\n  b = 1\n}]\nc = d({\n})\n",
	} {
		got, diags := Format("x.hcl", []byte(src))
		if diags.HasErrors() || string(got) != want {
			t.Errorf("Format(%q) = %q %v, want %q", src, got, diags, want)
		}
	}
}
