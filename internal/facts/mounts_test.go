//go:build unix

package facts

import "testing"

func TestShownIn(t *testing.T) {
	t.Parallel()
	table := []mount{
		{1, "/", "/"},
		{2, "/users", "/home"},
		{2, "/users/u/project", "/alias"},
		{2, "/users/u/project/bin", "/programs"},
		{2, "/tools", "/opt/tools"},
		{2, "/tools", "/home/u/project/tools"},
		{3, "/users/u/project", "/other"},
	}
	for p, want := range map[string]string{
		"/home/u/project/bin/git":   "/home/u/project",
		"/alias/bin/git":            "/home/u/project",
		"/programs/git":             "/home/u/project",
		"/opt/tools/git":            "/home/u/project", // by a mount in the directory
		"/home/u/git":               "",
		"/home/u/project2/git":      "",
		"/other/bin/git":            "", // another file system
		"/users/u/project/bin/git":  "",
		"/usr/bin/git":              "",
		"/home/u/another/tools/git": "",
	} {
		if dir := shownIn(table, []string{"/srv", "/home/u/project"}, p); dir != want {
			t.Errorf("%s shows in %q, not %q", p, dir, want)
		}
	}
	if dir := shownIn(nil, []string{"/home"}, "/home/git"); dir != "" {
		t.Errorf("without a table: %q", dir)
	}
}
