package config

import (
	"strings"
	"testing"
)

const (
	sumA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	sumB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func TestPin(t *testing.T) {
	t.Parallel()
	const sandbox = "sandbox \"a\" { engine = \"bwrap\" }\n"
	for _, c := range []struct{ name, in, want string }{
		{"no block", sandbox, sandbox + "\nengine \"x\" {\n  source = \"/opt/$${x}\"\n  sha256 = { linux_amd64 = \"" + sumB + "\" }\n}\n"},
		{
			"no checksum", "engine \"x\" {\n\tsource = \"/opt/x\" # why\n}\n" + sandbox,
			"engine \"x\" {\n\tsource = \"/opt/x\" # why\n\tsha256 = { linux_amd64 = \"" + sumB + "\" }\n}\n" + sandbox,
		},
		{
			"replaced", "engine \"x\" {\n  source = \"/opt/x\"\n  sha256 = { # pins\n    linux_amd64 = \"" + sumA + "\", # this\n    darwin_arm64 = \"" + sumA + "\"\n  }\n}\n" + sandbox,
			"engine \"x\" {\n  source = \"/opt/x\"\n  sha256 = { # pins\n    linux_amd64 = \"" + sumB + "\", # this\n    darwin_arm64 = \"" + sumA + "\"\n  }\n}\n" + sandbox,
		},
		{
			"quoted key", "engine \"x\" {\n  source = \"/opt/x\"\n  sha256 = { \"linux_amd64\" = \"" + sumA + "\" }\n}\n" + sandbox,
			"engine \"x\" {\n  source = \"/opt/x\"\n  sha256 = { \"linux_amd64\" = \"" + sumB + "\" }\n}\n" + sandbox,
		},
		{
			"joins, one line", "engine \"x\" {\n  source = \"/opt/x\"\n  sha256 = { darwin_arm64 = \"" + sumA + "\" }\n}\n" + sandbox,
			"engine \"x\" {\n  source = \"/opt/x\"\n  sha256 = { darwin_arm64 = \"" + sumA + "\", linux_amd64 = \"" + sumB + "\" }\n}\n" + sandbox,
		},
		{
			"joins, lines", "engine \"x\" {\n  source = \"/opt/x\"\n  sha256 = {\n    darwin_arm64 = \"" + sumA + "\" # mac\n  }\n}\n" + sandbox,
			"engine \"x\" {\n  source = \"/opt/x\"\n  sha256 = {\n    darwin_arm64 = \"" + sumA + "\" # mac\n    linux_amd64  = \"" + sumB + "\"\n  }\n}\n" + sandbox,
		},
		{
			"one line", "engine \"x\" { source = \"/opt/x\" /* why */ } # mine\n" + sandbox,
			"engine \"x\" {\n  source = \"/opt/x\" /* why */\n  sha256 = { linux_amd64 = \"" + sumB + "\" }\n} # mine\n" + sandbox,
		},
		{
			"CRLF", "# a\r\nengine \"x\" {\r\n  source = \"/opt/x\" // why\r\n}\r\nsandbox \"a\" {}\r\n",
			"# a\r\nengine \"x\" {\r\n  source = \"/opt/x\" // why\r\n  sha256 = { linux_amd64 = \"" + sumB + "\" }\r\n}\r\nsandbox \"a\" {}\r\n",
		},
		{
			"CRLF, no block", "sandbox \"a\" {}\r\n# end",
			"sandbox \"a\" {}\r\n# end\r\n\r\nengine \"x\" {\r\n  source = \"/opt/$${x}\"\r\n  sha256 = { linux_amd64 = \"" + sumB + "\" }\r\n}\r\n",
		},
		{
			"a comment of more lines", "engine \"x\" {\n source = \"/opt/x\" /* a\n b */ # c\n env = []\n}\n" + sandbox,
			"engine \"x\" {\n source = \"/opt/x\" /* a\n b */ # c\n sha256 = { linux_amd64 = \"" + sumB + "\" }\n env = []\n}\n" + sandbox,
		},
		{
			"one in the object", "engine \"x\" {\n source = \"/opt/x\"\n sha256 = {\n  darwin_arm64 = \"" + sumA + "\" /* a\n b */\n }\n}\n" + sandbox,
			"engine \"x\" {\n source = \"/opt/x\"\n sha256 = {\n  darwin_arm64 = \"" + sumA + "\" /* a\n b */\n  linux_amd64 = \"" + sumB + "\"\n }\n}\n" + sandbox,
		},
		{
			"the brace on the last line", "engine \"x\" {\n source = \"/opt/x\"\n sha256 = { plan9_386 = \"" + sumA + "\",\n  darwin_arm64 = \"" + sumA + "\" }\n}\n" + sandbox,
			"engine \"x\" {\n source = \"/opt/x\"\n sha256 = { plan9_386 = \"" + sumA + "\",\n  darwin_arm64 = \"" + sumA + "\", linux_amd64 = \"" + sumB + "\" }\n}\n" + sandbox,
		},
		{
			"a comma at the end", "engine \"x\" {\n source = \"/opt/x\"\n sha256 = { darwin_arm64 = \"" + sumA + "\", }\n}\n" + sandbox,
			"engine \"x\" {\n source = \"/opt/x\"\n sha256 = { darwin_arm64 = \"" + sumA + "\", linux_amd64 = \"" + sumB + "\", }\n}\n" + sandbox,
		},
		{
			"a heredoc", "engine \"x\" {\n source = trimspace(<<EOT\n/opt/x\nEOT\n )\n env = [\"a\"]\n}\n" + sandbox,
			"engine \"x\" {\n source = trimspace(<<EOT\n/opt/x\nEOT\n )\n sha256 = { linux_amd64 = \"" + sumB + "\" }\n env = [\"a\"]\n}\n" + sandbox,
		},
		{
			"no end of line", "engine \"y\" {\n  source = \"/opt/y\"\n}\nsandbox \"a\" {}\nengine \"x\" {\n  source = \"/opt/x\"\n}",
			"engine \"y\" {\n  source = \"/opt/y\"\n}\nsandbox \"a\" {}\nengine \"x\" {\n  source = \"/opt/x\"\n  sha256 = { linux_amd64 = \"" + sumB + "\" }\n}",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file, diags := Parse("/etc/sbx/config.hcl", []byte(c.in), EvalInput{OS: "linux", Arch: "amd64"})
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			got, err := file.Pin(Pin{Engine: "x", Source: "/opt/${x}", Platform: "linux_amd64", SHA256: sumB})
			if err != nil || string(got) != c.want {
				t.Fatalf("error %v, text\n%s\nwant\n%s", err, got, c.want)
			}
			again, diags := Parse("/etc/sbx/config.hcl", got, EvalInput{OS: "linux", Arch: "amd64"})
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			if o, _ := again.Options(); o.Engines["x"].SHA256["linux_amd64"] != sumB {
				t.Errorf("the text means %v", o.Engines["x"])
			}
		})
	}
}

func TestPinRefuses(t *testing.T) {
	t.Parallel()
	for want, in := range map[string]string{
		"sha256 is computed":                 `sha256 = merge({ darwin_arm64 = "` + sumA + `" }, {})`,
		"the checksum is computed":           `sha256 = { linux_amd64 = lower("` + sumA + `") }`,
		"the name of a platform is computed": `sha256 = { "${platform.os}_amd64" = "` + sumA + `" }`,
	} {
		text := "engine \"x\" {\n  source = \"/opt/x\"\n  " + in + "\n}\n"
		file, diags := Parse("/etc/sbx/config.hcl", []byte(text+"sandbox \"a\" {}\n"), EvalInput{OS: "linux", Arch: "amd64"})
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		if _, err := file.Pin(Pin{Engine: "x", Platform: "linux_amd64", SHA256: sumB}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "/etc/sbx/config.hcl:") {
			t.Errorf("%s: error %v", want, err)
		}
	}
}
