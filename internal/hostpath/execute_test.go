package hostpath

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// executable makes scripts that print the name by which they were called, and their PATH.
func executable(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		// By a shell: a child that another test forks meanwhile would hold the file open.
		script := exec.Command("/bin/sh", "-c", `cat >"$1" && chmod 755 "$1"`, "sh", filepath.Join(dir, name))
		script.Stdin = strings.NewReader("#!/bin/sh\necho $0 $PATH $#\n")
		if out, err := script.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	dir := place(t, "ws/bin/", "ws/through -> DIR/good", "good/", "second/", "open/", "sticky/", "to-ws -> DIR/ws/bin", "to-good -> DIR/good", "by-ws -> DIR/ws/through", "plain/git", "entry/git -> DIR/ws/bin/git")
	executable(t, dir, "ws/bin/git", "good/git", "second/git", "second/more", "open/git", "sticky/git")
	if err := errors.Join(os.Chmod(dir+"/open", 0o777), os.Chmod(dir+"/sticky", 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	search := func(dirs ...string) *Programs {
		for i, d := range dirs {
			if d != "" && !strings.HasPrefix(d, ".") && !filepath.IsAbs(d) {
				dirs[i] = filepath.Join(dir, d)
			}
		}
		return &Programs{Path: strings.Join(dirs, ":"), Written: func(p string) string {
			if p == dir+"/ws" || strings.HasPrefix(p, dir+"/ws/") {
				return "the workspace"
			}
			return ""
		}}
	}
	// All that is refused comes first: neither the search nor the PATH of what is found has any.
	p := search("", ".", "./ws/bin", "ws/bin", "to-ws", "by-ws", "open", "plain", "none", "entry", "to-good", "second", "sticky", "ws/../second")
	found, tried, err := p.Find("git")
	if err != nil || found.Path() != dir+"/good/git" || tried[len(tried)-1] != dir+"/to-good/git" || len(tried) != 8 {
		t.Fatalf("%v, %q, %v", found, tried, err)
	}
	out, err := found.Command(t.Context(), "a", "b").Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) != 3 || words[0] != found.Path() || words[2] != "2" {
		t.Fatalf("%q, %v", out, err)
	}
	// What it finds by name is the system's.
	for d := range strings.SplitSeq(words[1], ":") {
		if !slices.Contains(systemDirs[:], d) {
			t.Errorf("its PATH has %q", d)
		}
	}
	if cmd := found.Command(t.Context()); cmd.Args[0] != dir+"/to-good/git" || cmd.Dir != "/" || !slices.Equal(cmd.Env, []string{"PATH=" + words[1]}) {
		t.Errorf("%q in %s with %q", cmd.Args, cmd.Dir, cmd.Env)
	}
	bound := Programs{Path: dir + "/good", Written: func(p string) string {
		return map[bool]string{true: "what is bound writable"}[strings.HasPrefix(p, "/usr/sbin")]
	}}
	if found, _, err := bound.Find("git"); err != nil || strings.Contains(found.Command(t.Context()).Env[0], "/usr/sbin") {
		t.Errorf("where commands can write to the system's: %q, %v", found.Command(t.Context()).Env, err)
	}
	for name, want := range map[string]string{
		"git": "lies in the workspace", "none": "none that only you and root can replace", dir + "/ws/bin/git": "lies in the workspace", dir + "/entry/git": "lies in the workspace",
	} {
		if found, _, err := search("ws/bin", "plain").Find(name); !errors.Is(err, ErrNoProgram) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
	for _, name := range []string{"", "./git", "ws/bin/git", "../good/git"} {
		if found, _, err := search("good").Find(name); err == nil {
			t.Errorf("%q: %s", name, found.Path())
		}
	}
	if found, _, err := search("ws/bin").Find(dir + "/second/more"); err != nil || found.Path() != dir+"/second/more" {
		t.Errorf("by its path: %v, %v", found, err)
	}
	// Where PATH is not set, as by env -i and cron, the system's is searched.
	for _, p := range []string{"", ".:bin"} {
		if found, _, err := (&Programs{Path: p}).Find("sh"); err != nil || filepath.Base(found.name) != "sh" {
			t.Errorf("with the PATH %q: %v, %v", p, found, err)
		}
	}
}

// What somebody else owns is none, whoever could write to it.
func TestProgramsOfOthers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root to give files away")
	}
	dir := place(t, "theirs/", "file/", "good/", "to-good -> DIR/good")
	executable(t, dir, "theirs/git", "file/git", "good/git")
	for _, p := range []string{"/theirs", "/file/git", "/to-good"} {
		if err := os.Lchown(dir+p, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	p := Programs{Path: dir + "/theirs:" + dir + "/file:" + dir + "/to-good:" + dir + "/good"}
	found, tried, err := p.Find("git")
	if err != nil || len(tried) != 4 || found.Path() != dir+"/good/git" {
		t.Errorf("%v, %q, %v", found, tried, err)
	}
	for _, p := range []string{"/file/git", "/theirs/git"} {
		if _, err := Installed(dir + p); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
			t.Errorf("by its path: %v", err)
		}
	}
}

func TestInstalled(t *testing.T) {
	t.Parallel()
	dir := place(t, "plain", "d/", "link -> DIR/d/p", "open/")
	executable(t, dir, "d/p", "open/p")
	if err := os.Chmod(dir+"/open", 0o777); err != nil {
		t.Fatal(err)
	}
	found, err := Installed(dir + "/link")
	if err != nil || found.Path() != dir+"/d/p" {
		t.Fatal(found, err)
	}
	if cmd := found.Command(t.Context()); cmd.Args[0] != dir+"/link" || len(cmd.Env) != 1 || !strings.HasPrefix(cmd.Env[0], "PATH=/usr/bin:") {
		t.Errorf("%q with %q", cmd.Args, cmd.Env)
	}
	for name, want := range map[string]error{"/none": os.ErrNotExist, "/d": os.ErrNotExist, "/plain": nil, "/open/p": nil} {
		if _, err := Installed(dir + name); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Beside("sbxhost-none"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	mine, err := os.Executable()
	if out, runErr := self.Command(t.Context(), "-test.run=^$").CombinedOutput(); err != nil || runErr != nil || self.Command(t.Context()).Args[0] != mine {
		t.Errorf("%v, %v: %s", err, runErr, out)
	}
}
