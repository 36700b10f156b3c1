//go:build unix

package facts

import (
	"context"
	"reflect"
	"testing"

	"github.com/sbxhost/sbxhost/internal/view"
)

// table has a mount at /covered/deep that the one at /covered covers, and one that was moved before its parent.
var table = []mount{
	{1, "/", "/", "1", ""},
	{2, "/users", "/home", "2", "1"},
	{2, "/users/u/project", "/alias", "3", "1"},
	{2, "/users/u/project/bin", "/programs", "4", "1"},
	{2, "/tools", "/opt/tools", "5", "1"},
	{2, "/tools", "/home/u/project/tools", "6", "2"},
	{3, "/users/u/project", "/other", "7", "1"},
	{4, "/", "/covered/deep", "8", "1"},
	{2, "/users/u/project/bin", "/covered", "9", "1"},
	{2, "/users/u/project", "/home/u/project/chroot/src", "10", "2"},
	{2, "/users/u/project/bin", "/new/moved", "11", "12"},
	{5, "/", "/new", "12", "1"},
}

func TestAlsoAt(t *testing.T) {
	t.Parallel()
	for p, want := range map[string]string{
		"/home/u/project/bin/git":            "/home/u/project/chroot/src/bin/git",
		"/home/u/project/chroot/src/bin/git": "/home/u/project/bin/git",
		"/alias/bin/git":                     "/home/u/project/bin/git",
		"/programs/git":                      "/home/u/project/bin/git",
		"/covered/deep/git":                  "/home/u/project/bin/deep/git",
		"/new/moved/git":                     "/home/u/project/bin/git",
		"/new/git":                           "",
		"/opt/tools/git":                     "/home/u/project/tools/git", // by a mount in the directory
		"/home/u/git":                        "",
		"/home/u/project2/git":               "",
		"/other/bin/git":                     "", // another file system
		"/users/u/project/bin/git":           "",
		"/usr/bin/git":                       "",
		"/home/u/another/tools/git":          "",
	} {
		if at := alsoAt(table, "/home/u/project", p); at != want {
			t.Errorf("%s shows at %q, not %q", p, at, want)
		}
	}
	if at := alsoAt(nil, "/home", "/home/git"); at != "" {
		t.Errorf("without a table: %q", at)
	}
}

// What the host obeys is protected where another mount shows it to commands, and a second mount of what
// they write is read-only.
func TestMountedAgain(t *testing.T) {
	t.Parallel()
	look := newLookup(context.Background(), OnlyCaller(Caller{}), []string{"/home/u/project", "/nowhere"})
	look.mounts = func() ([]mount, error) { return table, nil }
	own := []view.HostPath{{Path: "/alias/conf", Kind: view.OwnConfig, Description: "x"}, {Path: "/opt/other", Kind: view.OwnPlace, Names: []string{"sbx"}}}
	want := append(own, view.HostPath{Path: "/home/u/project/conf", Kind: view.OwnConfig, Description: "x"},
		view.HostPath{Path: "/home/u/project/chroot/src", Kind: view.OwnMount, Description: "another mount of what commands write"})
	if got := look.mountedAgain(own); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}
