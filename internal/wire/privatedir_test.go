//go:build unix

package wire

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPrivateDir(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	make := func(name string, mode os.FileMode, uid int) string {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(p, 0o700), os.Chmod(p, mode), os.Lchown(p, uid, -1)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	link := func(name, to string, uid int) string {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.Symlink(to, p), os.Lchown(p, uid, -1)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	own := make("own", 0o755, -1)
	cases := map[string]struct{ base, in string }{
		"own":           {own, own},
		"sticky":        {make("sticky", 0o777|os.ModeSticky, -1), dir + "/sticky"},
		"own link":      {link("link", own, -1), own},
		"everybody's":   {make("open", 0o777, -1), "/tmp"},
		"below such":    {make("open/own", 0o700, -1), "/tmp"},
		"missing":       {dir + "/none", "/tmp"},
		"relative":      {"own", "/tmp"},
		"none":          {"", "/tmp"},
		"long":          {make(strings.Repeat("x", 100), 0o700, -1), "/tmp"},
		"a link's name": {link("long", dir+"/"+strings.Repeat("x", 100), -1), "/tmp"},
	}
	if os.Geteuid() == 0 {
		const other = 12345
		make("theirs/own", 0o700, -1)
		cases["theirs"] = struct{ base, in string }{make("theirs", 0o700, other), "/tmp"}
		cases["below theirs"] = struct{ base, in string }{dir + "/theirs/own", "/tmp"}
		cases["their link"] = struct{ base, in string }{link("led", own, other), "/tmp"}
	}
	for name, c := range cases {
		got, err := PrivateDir([]string{c.base}, "/socket")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		defer os.Remove(got)
		in, err := filepath.EvalSymlinks(c.in)
		if err != nil || filepath.Dir(got) != in {
			t.Errorf("%s: %s, not in %s", name, got, in)
		}
		if info, err := os.Stat(got); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}
