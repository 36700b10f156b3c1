package holder

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
)

// roleAnnounce is argv[1] of a launcher that is this test: it has the late steps
// made, as an init does, and then reads a file.
const roleAnnounce = "play-announce"

func announceAndRead(file, socket string) int {
	fd, err := strconv.Atoi(socket)
	if err == nil {
		err = Announce(fd, fd)
	}
	if err != nil {
		fmt.Println("refused:", err)
		return 1
	}
	text, err := os.ReadFile(file)
	f, failed := os.OpenFile(file, os.O_WRONLY, 0)
	fmt.Println(string(text), err, failed == nil)
	f.Close()
	return 0
}

func TestLateSteps(t *testing.T) {
	t.Parallel()
	c := connect(t, session(t))
	dir := tempDir(t)
	write(t, dir+"/f", "shown")
	ops := append(system(), Op{Kind: Devices, Dest: "/0/dev"}, Op{Kind: Terminals, Dest: "/0/dev/pts"},
		Op{Kind: Bind, Source: dir, Dest: "/1"}, Op{Kind: Bind, Source: dir + "/f", Dest: "/2"},
		Op{Kind: Point, Source: "/1", Dest: "/0/place"})
	base := Trees + "/0"
	for _, tt := range []struct {
		name, file string
		late       Late
		want       string
	}{
		{"a tree", "/place/f", Late{{Kind: Bind, Source: "/1", Dest: base + "/place"}}, "shown <nil> true"},
		{"where nothing is", "/deep/place/f", Late{{Kind: Bind, Source: "/1", Dest: base + "/deep/place"}}, "shown <nil> true"},
		{"a file", "/deep/f", Late{{Kind: Bind, Source: "/2", Dest: base + "/deep/f"}}, "shown <nil> true"},
		{"read-only", "/place/f", Late{{Kind: Bind, Source: "/1", Dest: base + "/place"}, {Kind: ReadOnlyBind, Dest: base + "/place"}}, "shown <nil> false"},
		{"hidden", "/place/f", Late{{Kind: Bind, Source: "/1", Dest: base + "/place"}, {Kind: HideFile, Dest: base + "/place/f"}}, " open"},
		{"none", "/place/f", Late{{Kind: ReadOnlyBind, Dest: base + "/usr"}}, " open"},
		{"nowhere to cover", "/place/f", Late{{Kind: ReadOnlyBind, Dest: base + "/nowhere"}}, `refused: mounting "` + base + `/nowhere"`},
		{"no such tree", "/place/f", Late{{Kind: Bind, Source: "/9", Dest: base + "/place"}}, "refused: mounting"},
		{"through a link", "/place/f", Late{{Kind: Bind, Source: "/1", Dest: base + "/dev/fd/1"}}, "refused: mounting"},
	} {
		write(t, dir+"/f", "shown")
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		null, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		executable, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		l, err := c.Start(t.Context(), NewPlan(ops), tt.late, executable, []string{"test", roleAnnounce, base + tt.file}, []*os.File{null, w, w})
		null.Close()
		w.Close()
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		out, _ := io.ReadAll(r)
		if _, err := l.Wait(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if !strings.HasPrefix(string(out), tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, out, tt.want)
		}
	}
	// Nothing of it is in the prepared tree.
	if got := sh(t, c, ops, "ls -A "+base+"/place; echo end"); got != "end\n" {
		t.Errorf("left in the tree: %q", got)
	}
}
