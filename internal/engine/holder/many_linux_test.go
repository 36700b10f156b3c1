package holder

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// rounds is how often a storm is tried: a third in a short run.
func rounds(n int) int {
	if testing.Short() {
		return n / 3
	}
	return n
}

// Many who want one session have it one after another.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	dir := session(t)
	lower := tempDir(t)
	ops := append(system(), Op{Kind: Overlay, Source: lower, Dest: "/0/o"})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range rounds(6) {
				c, err := Connect(t.Context(), Config{Dir: dir, Executable: self})
				for errors.Is(err, ErrOther) { // others were faster, and this one waits for its turn no longer
					c, err = Connect(t.Context(), Config{Dir: dir, Executable: self})
				}
				if err != nil {
					t.Error(err)
					return
				}
				l, r, err := start(t, c, ops, fmt.Sprintf("echo %d >> /.tree/0/o/f%d; cat /.tree/0/o/f%d | wc -l; echo $PPID", n, i, i))
				if err != nil {
					t.Error(err)
				} else {
					out, _ := io.ReadAll(r)
					want := []string{strconv.Itoa(n + 1), strconv.Itoa(c.Pid())}
					if got := strings.Fields(string(out)); !slices.Equal(got, want) {
						t.Errorf("%d: lines and holder %q, want %q", i, got, want)
					}
					l.Wait()
				}
				c.Close()
			}
		})
	}
	all.Wait()
}

func TestNothingGrows(t *testing.T) {
	t.Parallel()
	dir := session(t)
	c := connect(t, dir)
	holder := c.Pid()
	count := func() (n [4]int) {
		p := "/proc/" + strconv.Itoa(holder)
		for i, sub := range []string{"/fd", "/task"} {
			names, err := os.ReadDir(p + sub)
			if err != nil && os.Geteuid() == 0 {
				t.Error(err)
			}
			n[i] = len(names)
		}
		b, _ := os.ReadFile(p + "/mounts")
		n[2] = strings.Count(string(b), "\n")
		n[3] = resident(t, holder)
		return n
	}
	ops := system()
	many := func(rounds int) {
		for i := range rounds {
			extra := Op{Kind: Directory, Dest: "/0/d" + strconv.Itoa(i%9), Perms: 0o755}
			sh(t, c, append(slices.Clone(ops), extra), "true")
		}
	}
	many(60)
	before := count()
	many(300)
	after := count()
	// Threads come and go: what counts is that none stays for each command.
	if after[0] > before[0]+8 || after[1] > before[1]+50 || after[2] > before[2]+8 || after[3] > before[3]+8<<10 && !raceDetector {
		t.Errorf("descriptors, threads, mounts, KiB: %v became %v", before, after)
	}
}

// resident is the memory of a process in KiB, which /proc tells of any.
func resident(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "\nVmRSS:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		t.Fatalf("no VmRSS in %s", b)
	}
	n, err := strconv.Atoi(fields[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
