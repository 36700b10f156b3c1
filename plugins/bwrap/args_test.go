package bwrap

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/shared"
)

// oneOfEach is a plan with every kind of step that bubblewrap makes.
var oneOfEach = []holder.Op{
	{Kind: holder.ReadOnlyBind, Source: "/usr", Dest: "/usr"},
	{Kind: holder.Symlink, Source: "usr/bin", Dest: "/bin"},
	{Kind: holder.File, Source: "/etc/passwd", Dest: "/etc/passwd", Perms: 0o444},
	{Kind: holder.Text, Source: "nameserver 198.18.0.1\n", Dest: "/etc/resolv.conf", Perms: 0o444},
	{Kind: holder.Processes, Dest: "/proc"},
	{Kind: holder.Devices, Dest: "/dev"},
	{Kind: holder.Memory, Dest: "/tmp", Perms: 0o1777, Size: 4096},
	{Kind: holder.ReadOnly, Dest: "/dev"},
	{Kind: holder.Directory, Dest: "/run", Perms: 0o755},
	{Kind: holder.Bind, Source: "/w", Dest: "/w", FromSpec: true},
	{Kind: holder.Pin, Source: "/w/d", Dest: "/w/d", FromSpec: true},
	{Kind: holder.HideFile, Dest: "/w/d/.env"},
	{Kind: holder.HideDirectory, Dest: "/w/--secret"},
}

func TestArgs(t *testing.T) {
	t.Parallel()
	words, files, err := args(shared.NetworkNone, oneOfEach, 5)
	if err != nil {
		t.Fatal(err)
	}
	want := append(namespaces[:], strings.Fields(`--unshare-net --ro-bind /usr /usr --symlink usr/bin /bin --perms 0444 --file 5 /etc/passwd --perms 0444 --file 6 /etc/resolv.conf
		--proc /proc --dev /dev --perms 1777 --size 4096 --tmpfs /tmp --remount-ro /dev --perms 0755 --dir /run --bind-fd 7 /w --bind-fd 8 /w/d
		--ro-bind /dev/null /w/d/.env --perms 0000 --size 4096 --tmpfs /w/--secret --remount-ro /w/--secret`)...)
	if !slices.Equal(words, want) {
		t.Errorf("got  %q\nwant %q", words, want)
	}
	if want := []input{{path: "/etc/passwd"}, {path: "a text", text: "nameserver 198.18.0.1\n"}, {path: "/w", source: true}, {path: "/w/d", source: true}}; !slices.Equal(files, want) {
		t.Errorf("files %v, want %v", files, want)
	}
	words, _, err = args(shared.NetworkHost, oneOfEach[9:10], -1)
	if err != nil || !slices.Equal(words, append(namespaces[:], "--bind-fd", "</w>", "/w")) {
		t.Errorf("for people, with the host's network: %q, %v", words, err)
	}
}

// What bubblewrap does not bear is refused by name.
func TestBounds(t *testing.T) {
	t.Parallel()
	for want, ops := range map[string][]holder.Op{
		"needs 1501 mounts, and bubblewrap takes at most 1500;": slices.Repeat([]holder.Op{{Kind: holder.ReadOnlyBind, Source: "/s", Dest: "/d"}}, 1501),
		"option words":    slices.Repeat([]holder.Op{{Kind: holder.Memory, Dest: "/d"}}, 1490),
		"descriptors":     slices.Repeat([]holder.Op{{Kind: holder.Pin, Source: "/s", Dest: "/d", FromSpec: true}}, 1000),
		"bind_paths[3]: ": {{Kind: holder.ReadOnlyBind, Source: "/" + strings.Repeat("x", 128<<10), Dest: "/d", Why: "bind_paths[3]"}},
	} {
		_, _, err := args(0, ops, 4)
		e, ok := errors.AsType[*shared.Error](err)
		if !ok || e.Kind != shared.ErrInvalidSpec || !strings.Contains(err.Error(), want) || len(ops) > 1 && !strings.Contains(e.Hint, "native") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// FuzzArgs: whatever a path is, it is a data word in a place where bubblewrap takes
// a path.
func FuzzArgs(f *testing.F) {
	f.Add("/--ro-bind", "/\n", uint8(0))
	f.Add("--file", "\xff", uint8(6))
	arity := map[string]int{"--setenv": 2, "--cap-drop": 1, "--cap-add": 1, "--hostname": 1, "--chdir": 1, "--perms": 1, "--size": 1, "--ro-bind": 2, "--bind": 2,
		"--ro-bind-fd": 2, "--bind-fd": 2, "--tmpfs": 1, "--symlink": 2, "--proc": 1, "--dev": 1, "--dir": 1, "--file": 2, "--remount-ro": 1}
	f.Fuzz(func(t *testing.T, source, dest string, which uint8) {
		o := oneOfEach[int(which)%len(oneOfEach)]
		o.Source, o.Dest = source, dest
		words, files, err := args(0, []holder.Op{o}, 4)
		if err != nil {
			return
		}
		fds := 0
		for i := 0; i < len(words); {
			n, known := arity[words[i]]
			if !known && !strings.HasPrefix(words[i], "--unshare-") && words[i] != "--die-with-parent" && words[i] != "--as-pid-1" {
				t.Fatalf("%q stands where an option is read", words[i])
			}
			if strings.HasSuffix(words[i], "-fd") || words[i] == "--file" {
				if want := fmt.Sprint(4 + fds); words[i+1] != want {
					t.Fatalf("descriptor %s, want %s", words[i+1], want)
				}
				fds++
			}
			i += n + 1
		}
		if fds != len(files) {
			t.Fatalf("%d descriptors for %d files", fds, len(files))
		}
	})
}

func hide(paths ...string) []shared.Entry {
	table := make([]shared.Entry, len(paths))
	for i, p := range paths {
		table[i] = shared.Entry{Path: p, Access: shared.Hidden, Missing: shared.MissingIgnore, Why: "deny_paths[0]"}
	}
	return table
}
