package bwrap

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/testing/programs"
	"github.com/sbxhost/sbxhost/plugins/internal/inside"
	"github.com/sbxhost/sbxhost/shared"
)

// A command that runs in the same workspace puts a symlink in the place of a
// directory, and takes it away again, while sandboxes are made: what they show is
// in its place, or no command runs.
func TestPlacesAreSwappedMeanwhile(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	for name, tt := range map[string]struct {
		link   func(dir string) string // where the symlink leads, in the place of d
		table  func(dir, outside string) []shared.Entry
		script string
		bad    func(out, dir string) bool
	}{
		"hidden": {
			link:   func(string) string { return "other" },
			table:  func(dir, _ string) []shared.Entry { return hide(dir + "/d/secret") },
			script: "cat /proc/self/mountinfo",
			bad: func(out, dir string) bool {
				return !strings.Contains(out, " "+dir+"/d/secret ") && !strings.Contains(out, " "+dir+"/link/secret ")
			},
		},
		"protected": {
			link: func(string) string { return "other" },
			table: func(dir, _ string) []shared.Entry {
				return []shared.Entry{{Source: dir + "/d/secret/key", Path: dir + "/d/secret/key", Access: shared.ReadOnly, Why: "protected: x"}}
			},
			script: "cat /proc/self/mountinfo",
			bad: func(out, dir string) bool {
				return !strings.Contains(out, " "+dir+"/d/secret/key ") && !strings.Contains(out, " "+dir+"/link/secret/key ")
			},
		},
		"a bind over a system directory": {
			link: func(dir string) string { return strings.Repeat("../", strings.Count(dir, "/")) + "usr" },
			table: func(dir, outside string) []shared.Entry {
				return []shared.Entry{{Source: outside, Path: dir + "/d/bin", Access: shared.ReadWrite, Why: "bind_paths[0]"}}
			},
			script: "cat /proc/self/mountinfo",
			bad:    func(out, _ string) bool { return strings.Contains(out, " /usr/bin ") },
		},
		"a source": {
			link: func(string) string { return "../outside" },
			table: func(dir, _ string) []shared.Entry {
				return []shared.Entry{{Source: dir + "/d/secret", Path: "/data", Access: shared.ReadOnly, Why: "bind_paths[0]"}}
			},
			script: "cat /data/key",
			bad:    func(out, _ string) bool { return out != "mine" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := inside.Workspace(t)
			dir, outside := top+"/w", top+"/outside"
			for _, p := range []string{"w/d/secret/key", "w/other/secret/key", "w/d/bin/x"} {
				inside.Write(t, filepath.Join(top, p), "mine")
			}
			inside.Write(t, outside+"/secret/key", "outside")
			if err := os.Symlink(tt.link(dir), dir+"/link"); err != nil {
				t.Fatal(err)
			}
			before := listing(t, top)
			spec := shared.Spec{Table: append(tt.table(dir, outside), inside.BindRW(dir))}
			cmd := shared.Command{Args: []string{"/bin/sh", "-c", tt.script}}

			// At the worst moment: all has been looked at, nothing is mounted.
			swaps := "cd '" + dir + "'; test -L d || { mv d real; mv link d; }"
			swapping := spec
			swapping.Options = json.RawMessage(fmt.Sprintf(`{"path": %q}`, swapsFirst(t, false, swaps)))
			if out, err := inside.TryRun(t, New(), swapping, cmd); err == nil && tt.bad(out.Stdout, dir) {
				t.Errorf("swapped before the first mount, it ran and saw %q", out.Stdout)
			} else if errors.Is(err, shared.ErrNotFound) {
				t.Errorf("something lies over /bin/sh: %v", err)
			}
			if err := errors.Join(os.Rename(dir+"/d", dir+"/link"), os.Rename(dir+"/real", dir+"/d")); err != nil {
				t.Fatal(err)
			}

			stop, stopped := make(chan struct{}), make(chan struct{})
			swap := func() error {
				return unix.Renameat2(unix.AT_FDCWD, dir+"/d", unix.AT_FDCWD, dir+"/link", unix.RENAME_EXCHANGE)
			}
			go func() {
				defer close(stopped)
				for n := 0; ; n++ {
					select {
					case <-stop:
						if n%2 == 1 {
							swap()
						}
						return
					default:
						if err := swap(); err != nil {
							t.Errorf("swapping: %v", err)
							return
						}
						// Many times in a start, or once at any moment of it.
						if rand.N(20) == 0 {
							time.Sleep(rand.N(5 * time.Millisecond))
						}
					}
				}
			}()
			const rounds = 100
			ran := 0
			for range rounds {
				out, err := inside.TryRun(t, e, spec, cmd)
				switch {
				case err == nil && tt.bad(out.Stdout, dir):
					t.Errorf("it ran and saw %q", out.Stdout)
				case err == nil:
					ran++
				case errors.Is(err, shared.ErrNotFound):
					t.Errorf("something lies over /bin/sh: %v", err)
				}
			}
			close(stop)
			<-stopped
			t.Logf("%d of %d ran", ran, rounds)
			if out, err := inside.TryRun(t, e, spec, cmd); err != nil || tt.bad(out.Stdout, dir) {
				t.Errorf("the control: %v, %+v", err, out)
			}
			if after := listing(t, top); after != before {
				t.Errorf("there is\n%s, and was\n%s", after, before)
			}
		})
	}
}

// swapsFirst is a bubblewrap that does something before it starts; an older one
// mounts by path alone.
func swapsFirst(t *testing.T, older bool, does string) string {
	t.Helper()
	real, err := locate("")
	if err != nil {
		t.Fatal(err)
	}
	dir := inside.Workspace(t)
	script := "#!/bin/sh\nPATH=/usr/bin:/bin\n"
	if older {
		script += "cat <&3 >" + dir + "/words.$$\nif tr '\\0' '\\n' <" + dir + "/words.$$ | grep -qe -bind-fd; then\n" +
			"	echo 'bwrap: Unknown option --bind-fd' >&2; exit 1\nfi\nexec 3<" + dir + "/words.$$\n"
	}
	script += does + "\nexec " + real + " \"$@\"\n"
	if err := programs.Write(dir+"/bwrap", []byte(script)); err != nil {
		t.Fatal(err)
	}
	return dir + "/bwrap"
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	if err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		b.WriteString(p + "\n")
		return err
	}); err != nil {
		t.Error(err)
	}
	return b.String()
}
