package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// Root trusts no path that another user could lead elsewhere a moment later, even if it ends in a directory of root's.
func TestMakePrivateForRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root to give files away")
	}
	dir := place(t, "home/roots/deep/", "home/link -> DIR/mine", "mine/deep/", "theirs -> DIR/mine", "own -> DIR/mine", "away -> DIR/home/roots")
	for _, p := range []string{"/home", "/home/link", "/theirs"} {
		if err := os.Lchown(dir+p, 4242, 4242); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"home/new": "uid 4242", "home/roots": "uid 4242", "home/roots/deep": "uid 4242", "home/roots/new": "uid 4242", "home/link/deep": "user 4242", "home/link/new": "user 4242",
		"theirs/deep": "user 4242", "theirs/new": "user 4242", "own/deep": "", "away/deep": "uid 4242", "away/new": "uid 4242", "own/made/too": "", "mine/deep": "",
	} {
		err := MakePrivate(dir+"/"+path, 0o700)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, p := range []string{"/home/roots/new", "/mine/new", "/home/new"} {
		if _, err := os.Lstat(dir + p); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was made: %v", p, err)
		}
	}
}
