package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/internal/source"
)

// place makes the paths given below a directory of their own, which it returns: files, or directories
// when they end in a slash; a path with "!" before it cannot be looked at.
func place(t *testing.T, paths ...string) (root string) {
	t.Helper()
	root = t.TempDir()
	for _, p := range paths {
		at := filepath.Join(root, strings.TrimPrefix(p, "!"))
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		switch {
		case err != nil:
		case p[0] == '!':
			err = os.Symlink(filepath.Base(at), at) // which leads to itself
		case strings.HasSuffix(p, "/"):
			err = os.Mkdir(at, 0o755)
		default:
			err = os.WriteFile(at, nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// below gives an absolute path another root.
func below(root, path string) string {
	if strings.HasPrefix(path, "/") {
		return root + path
	}
	return path
}

func TestFind(t *testing.T) {
	t.Parallel()
	const home = "/home/me/.config/sbxhost/config.hcl"
	for name, tt := range map[string]struct {
		explicit string
		env      map[string]string
		dir      string
		files    []string
		want     string
		origin   Origin
		err      error
	}{
		"flag first": {
			explicit: "my.hcl", dir: "/w", env: map[string]string{"SBXHOST_CONFIG": "/e.hcl"},
			files: []string{"/w/my.hcl", "/e.hcl", "/w/config.hcl"}, want: "/w/my.hcl", origin: OriginFlag,
		},
		"flag missing": {
			explicit: "/no.hcl", dir: "/w", files: []string{"/w/config.hcl"}, origin: OriginFlag, err: fs.ErrNotExist,
		},
		"environment": {
			dir: "/w", env: map[string]string{"SBXHOST_CONFIG": "e.hcl"},
			files: []string{"/w/e.hcl", "/w/config.hcl"}, want: "/w/e.hcl", origin: OriginEnvironment,
		},
		"environment missing": {
			dir: "/w", env: map[string]string{"SBXHOST_CONFIG": "/e.hcl"}, files: []string{"/w/config.hcl"},
			origin: OriginEnvironment, err: fs.ErrNotExist,
		},
		"current directory": {dir: "/w", files: []string{"/w/config.hcl", home}, want: "/w/config.hcl"},
		"up to the git top": {
			dir: "/w/a/b", files: []string{"/w/.git/", "/w/config.hcl", "/config.hcl"}, want: "/w/config.hcl",
		},
		"nearest wins": {
			dir: "/w/a/b", files: []string{"/w/.git/", "/w/config.hcl", "/w/a/config.hcl"}, want: "/w/a/config.hcl",
		},
		"not above the git top": {
			dir: "/w/a", files: []string{"/w/a/.git", "/w/config.hcl", home}, want: home, origin: OriginUser,
		},
		"no git: not above": {
			dir: "/w/a", files: []string{"/w/config.hcl"}, origin: OriginBuiltin,
		},
		"git at the root": {dir: "/w/a", files: []string{"/.git/", "/config.hcl"}, want: "/config.hcl"},
		"a directory is no file": {
			dir: "/w", files: []string{"/w/config.hcl/", home}, want: home, origin: OriginUser,
		},
		"xdg": {
			dir: "/w", env: map[string]string{"XDG_CONFIG_HOME": "/x"}, files: []string{home, "/x/sbxhost/config.hcl"},
			want: "/x/sbxhost/config.hcl", origin: OriginUser,
		},
		"relative xdg is ignored": {
			dir: "/w", env: map[string]string{"XDG_CONFIG_HOME": "x"}, files: []string{home}, want: home, origin: OriginUser,
		},
		"in the user's own directory": {
			dir: "/home/me/.config/sbxhost", files: []string{home}, want: home, origin: OriginUser,
		},
		"our name first": {dir: "/w", files: []string{"/w/config.hcl", "/w/sbxhost.hcl"}, want: "/w/sbxhost.hcl"},
		"nearest wins, by either name": {
			dir: "/w/a", files: []string{"/w/.git/", "/w/sbxhost.hcl", "/w/a/config.hcl"}, want: "/w/a/config.hcl",
		},
		"unreadable is not absent": {
			dir: "/w", files: []string{"!/w/config.hcl", home}, err: syscall.ELOOP,
		},
		"no telling the git top": {
			dir: "/w/a", files: []string{"!/w/.git", home}, err: syscall.ELOOP,
		},
		"user's unreadable": {
			dir: "/w", files: []string{"!" + home}, origin: OriginUser, err: syscall.ELOOP,
		},
		"nothing": {dir: "/w", origin: OriginBuiltin},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := place(t, tt.files...)
			getenv := func(name string) string {
				if v, ok := tt.env[name]; ok || name != "HOME" {
					return below(root, v)
				}
				return root + "/home/me"
			}
			path, origin, err := Find(LookupOptions{Explicit: below(root, tt.explicit), Dir: root + tt.dir, Getenv: getenv})
			if path != below(root, tt.want) || origin != tt.origin || !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
				t.Errorf("got %q, %v, %v; want %q, %v, %v", path, origin, err, tt.want, tt.origin, tt.err)
			}
		})
	}
}

// A config.hcl of another tool is passed by; one with errors, or with a name that somebody may
// have misspelled, is not.
func TestFindPassesByOtherTools(t *testing.T) {
	t.Parallel()
	for text, foreign := range map[string]bool{
		"ui = true\nlistener \"tcp\" {\n  address = \"[::]:1\"\n  sandbox \"x\" {}\n}\n": true,
		"ui = true\nsandbox \"x\" {}\n":        false,
		"ui = true\ndefault_sandbox = \"x\"\n": false,
		"sandboxes = 1\n":                      false,
		"sandbx \"x\" {}\n":                    false,
		"workspace = {}\n":                     false,
		"ui = \n":                              false,
		"":                                     false,
		"# nothing\n":                          false,
		"ui = " + strings.Repeat("[", 1e6):     false, // which the parser must not see: no stack has room for it
		"ui = true\n" + strings.Repeat("# long\n", source.MaxSize/7): false,
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, FileName)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		path, origin, err := Find(LookupOptions{Dir: dir})
		if want := map[bool]string{false: file}[foreign]; path != want || (origin == OriginBuiltin) != foreign || err != nil {
			t.Errorf("%.40q: %q, %v, %v", text, path, origin, err)
		}
	}
}

func TestZeroOriginDeservesNoTrust(t *testing.T) {
	t.Parallel()
	if Origin(0) != OriginWorkspace {
		t.Error("the zero Origin is not the workspace")
	}
}
