//go:build unix

package facts

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/view"
)

// table has a covered mount at /covered/deep, and one that is older than the root.
var table = parseMounts(`9 10 0:5 / /run rw - tmpfs none rw
10 1 0:1 / / rw - ext4 none rw
11 10 0:2 /users /home rw - ext4 none rw
12 10 0:2 /users/u/project /alias rw - ext4 none rw
13 10 0:2 /users/u/project/bin /programs rw - ext4 none rw
14 10 0:2 /tools /opt/tools rw - ext4 none rw
15 11 0:2 /tools /home/u/project/tools rw - ext4 none rw
16 10 0:3 /users/u/project /other rw - ext4 none rw
17 10 0:4 / /covered/deep rw - ext4 none rw
18 10 0:2 /users/u/project/bin /covered rw - ext4 none rw
19 11 0:2 /users/u/project /home/u/project/chroot/src rw - ext4 none rw
20 11 0:2 /tools /home/u/project/again rw - ext4 none rw
21 11 0:5 /app /home/u/project/run rw - tmpfs none rw
`)

func TestAlsoAt(t *testing.T) {
	t.Parallel()
	for p, want := range map[string]string{
		"/home/u/project/bin/git":            "/home/u/project/chroot/src/bin/git",
		"/home/u/project/chroot/src/bin/git": "/home/u/project/bin/git",
		"/alias/bin/git":                     "/home/u/project/bin/git /home/u/project/chroot/src/bin/git",
		"/programs/git":                      "/home/u/project/bin/git /home/u/project/chroot/src/bin/git",
		"/covered/deep/git":                  "/home/u/project/bin/deep/git /home/u/project/chroot/src/bin/deep/git",
		"/opt/tools/git":                     "/home/u/project/tools/git /home/u/project/again/git", // by mounts in the directory
		"/run/app/s":                         "/home/u/project/run/s",
		"/home/u/git":                        "",
		"/home/u/project2/git":               "",
		"/other/bin/git":                     "", // another file system
		"/users/u/project/bin/git":           "",
		"/usr/bin/git":                       "",
		"/home/u/another/tools/git":          "",
	} {
		if at := strings.Join(otherPaths(table, mountsIn(table, "/home/u/project"), p), " "); at != want {
			t.Errorf("%s shows at %q, not %q", p, at, want)
		}
	}
	if at := otherPaths(nil, mountsIn(nil, "/home"), "/home/git"); at != nil {
		t.Errorf("without a table: %q", at)
	}
}

// What the host obeys is protected where another mount shows it to commands, and a second mount of what
// they write is read-only.
func TestMountedAgain(t *testing.T) {
	t.Parallel()
	look := newLookup(context.Background(), OnlyCaller(Caller{}), []string{"/home/u/project", "/nowhere"})
	look.mounts = func() ([]mount, error) { return table, nil }
	own := []view.HostPath{{Path: "/alias/conf", Kind: view.HostConfig, Description: "x"}, {Path: "/opt/other", Kind: view.HostNames, Names: []string{"sbx"}},
		{Path: "/opt", Kind: view.HostNames, Names: []string{"other", "tools"}}}
	want := append(own, view.HostPath{Path: "/home/u/project/conf", Kind: view.HostConfig, Description: "x"},
		view.HostPath{Path: "/home/u/project/chroot/src/conf", Kind: view.HostConfig, Description: "x"},
		view.HostPath{Path: "/home/u/project", Kind: view.HostNames, Names: []string{"tools"}}, view.HostPath{Path: "/home/u/project", Kind: view.HostNames, Names: []string{"again"}},
		view.HostPath{Path: "/home/u/project/chroot/src", Kind: view.HostDir, Description: "another mount of what commands write"})
	if got := look.addSecondMounts(own); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}
