package bwrap

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/testing/programs"
	"github.com/sbxhost/sbxhost/plugins/internal/inside"
	"github.com/sbxhost/sbxhost/shared"
)

// A session is the same with a bubblewrap that makes overlays itself and with one
// that does not: neither is asked to make any.
func TestSessionWithAnyLauncher(t *testing.T) {
	t.Parallel()
	needBwrap(t)
	real, err := locate("")
	if err != nil {
		t.Fatal(err)
	}
	const help = `--overlay-src SRC
--overlay RWSRC WORKDIR DEST
--tmp-overlay DEST
--ro-overlay DEST
--size BYTES`
	for name, script := range map[string]string{
		"newer": `case "$*" in *--help*) echo "bubblewrap: usage"; echo "` + help + `"; echo "--bind-fd FD DEST"; exit 0;; *--version*) echo bubblewrap 0.11.2; exit 0;; esac`,
		"this":  "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, lower := inside.Workspace(t), inside.Workspace(t)
			inside.Write(t, lower+"/f", "lower\n")
			launcher := filepath.Join(dir, "bwrap")
			text := "#!/bin/sh\nPATH=/usr/bin:/bin\nwords=" + dir + "/words.$$\n" +
				"test ! -e /proc/self/fd/3 || cat <&3 >$words\n" + script + "\nexec 3<$words " + real + ` "$@"` + "\n"
			if err := programs.Write(launcher, []byte(text)); err != nil {
				t.Fatal(err)
			}
			options, err := json.Marshal(map[string]string{"path": launcher})
			if err != nil {
				t.Fatal(err)
			}
			e := New()
			spec := sessionSpec(t)
			spec.Options = options
			spec.Table = []shared.Entry{{Source: lower, Path: "/cache", Access: shared.Overlay, Why: "workspace.caches", Degradable: true}}
			inside.Expect(t, e, spec, "cat /cache/f; echo home >/home/u/f && cat /home/u/f", "lower\nhome")
			inside.Expect(t, e, spec, "touch /cache/x 2>/dev/null || echo refused; touch /usr/x 2>/dev/null || echo refused", "refused\nrefused")
			if b, err := os.ReadFile(lower + "/f"); err != nil || string(b) != "lower\n" {
				t.Errorf("the host's file: %q, %v", b, err)
			}
			asked, err := filepath.Glob(dir + "/words.*")
			if err != nil || len(asked) < 2 {
				t.Errorf("it was called %d times, %v", len(asked), err)
			}
			for _, words := range asked {
				if b, err := os.ReadFile(words); err != nil || strings.Contains(string(b), "overlay") {
					t.Errorf("it was asked %q, %v", b, err)
				}
			}
		})
	}
}
