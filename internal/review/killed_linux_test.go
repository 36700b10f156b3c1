package review

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What was taken away comes back where its directory is gone, too: it is kept and named.
func TestRecoverWithoutDirectory(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, "d/a 1", "d/b 1", "e 1")
	for _, line := range []string{"d/a -", "d/b -", "e -"} {
		w.write(w.upper, line)
	}
	if _, err := w.apply(Choice{}); err != nil {
		t.Fatal(err)
	}
	// As if it had been killed before its end.
	dir := filepath.Join(w.shelf.dir, "r")
	w.check(os.Rename(filepath.Join(dir, completeFile), filepath.Join(dir, journalFile)))
	if list, err := w.shelf.List(); err != nil || len(list) != 1 || !list[0].Applied || list[0].Complete {
		t.Errorf("the killed apply is listed as %+v, %v", list, err)
	}
	w.check(os.RemoveAll(filepath.Join(w.root, "d")))
	r, err := w.shelf.Open(context.Background(), "r")
	if err != nil || w.list(w.root) != "e=1" {
		t.Fatalf("%v: %s", err, w.list(w.root))
	}
	defer r.Close()
	told := strings.Join(r.Recovered, " ")
	_, kept, ok := strings.Cut(told, "what was there before lies in ")
	if !ok || !strings.Contains(told, `d/a" is gone`) {
		t.Fatalf("%q", told)
	}
	// It stays until its user removes it, whatever becomes of the review.
	w.check(r.Discard(context.Background()))
	if got := w.list(strings.Trim(kept, `"`)); got != "0=1 1=1" {
		t.Errorf("%q", got)
	}
}

// TestKilled kills who applies a review of a repository, at any moment: what is there then, once somebody has opened
// the review, is all of it or nothing, and git finds no fault.
func TestKilled(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "git") {
			t.Fatalf("SBXHOST_REQUIRE lists git: %v", err)
		}
		t.Skip("no git here")
	}
	w := newRoot(t, both...)
	run := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.Command(git, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	run(w.root, "init", "-q", "-b", "main", ".")
	run(w.root, "add", "-A")
	run(w.root, "commit", "-q", "-m", "first")
	w.begin()
	w.fill()
	for i := range 300 {
		w.write(w.upper, fmt.Sprintf("many/%d/f%d text %d", i%10, i, i))
	}
	// What a commit in the review would have made: a repository that has one more.
	other := filepath.Join(t.TempDir(), "other")
	w.check(os.CopyFS(other, os.DirFS(w.root)))
	w.check(os.CopyFS(filepath.Join(other, "many"), os.DirFS(filepath.Join(w.upper, "many"))))
	run(other, "add", "-A")
	run(other, "commit", "-q", "-m", "second")
	w.check(os.CopyFS(filepath.Join(w.upper, ".git"), os.DirFS(filepath.Join(other, ".git"))))
	before := w.state(w.root)
	// The workspace keeps the objects of what was taken back, until git removes what nothing needs.
	collect := func() {
		t.Helper()
		seen := map[string]bool{}
		for line := range strings.Lines(before) {
			seen[line] = true
		}
		var more []string
		for line := range strings.Lines(w.state(w.root)) {
			if p, _, _ := strings.Cut(strings.TrimPrefix(line, `"`), `"`); strings.HasPrefix(p, "/.git/objects/") && !seen[line] {
				more = append(more, filepath.Join(w.root, p))
			}
		}
		if len(more) == 0 {
			t.Error("no object was kept")
		}
		for _, p := range slices.Backward(more) {
			w.check(os.Remove(p))
		}
	}
	var after string
	runs := 500
	if testing.Short() {
		runs = 20
	}
	killed, whole, undone := 0, 0, 0
	longest := map[string]time.Duration{}
	kill := func(what string) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), storm+"="+w.root, what)
		out, err := cmd.StdoutPipe()
		w.check(err)
		begin := time.Now()
		w.check(cmd.Start())
		out.Read(make([]byte, 6))  // "begun"
		late := longest[what] == 0 // the first comes to its end, and tells how long that takes now
		if late {
			cmd.Wait()
		} else {
			timer := time.AfterFunc(rand.N(longest[what]), func() { cmd.Process.Signal(syscall.SIGKILL) })
			cmd.Wait()
			late = timer.Stop()
		}
		if late {
			longest[what] = time.Since(begin) * 3 / 2
		} else {
			killed++
		}
	}
	for range runs {
		kill("")
		r, err := w.shelf.Open(context.Background(), "r")
		w.check(err)
		applied := has(r.dir, completeFile)
		r.Close()
		if !applied {
			if got := w.state(w.root); got != before {
				t.Fatalf("killed, it left\n%s\nfor\n%s", got, before)
			}
		} else {
			whole++
			if after == "" {
				after = w.state(w.root)
			} else if got := w.state(w.root); got != after {
				t.Fatalf("applied, it left\n%s\nfor\n%s", got, after)
			}
			run(w.root, "fsck", "--strict", "--no-dangling")
			kill(stormUndo + "=1")
			r, err := w.shelf.Open(context.Background(), "r")
			w.check(err)
			taken := !has(r.dir, completeFile)
			r.Close()
			if taken {
				undone++
			} else if _, told, err := w.shelf.Undo(context.Background()); err != nil {
				t.Fatalf("%v %q", err, told)
			}
			run(w.root, "fsck", "--strict", "--no-dangling")
			collect()
			if got := w.state(w.root); got != before {
				t.Fatalf("undone, it left\n%s\nfor\n%s", got, before)
			}
		}
		run(w.root, "fsck", "--strict", "--no-dangling")
	}
	t.Logf("%d of %d were killed, %d came to their end, %d were taken back", killed, runs, whole, undone)
	if killed == 0 || whole == 0 || undone == 0 {
		t.Error("nothing was killed, or nothing applied")
	}
}
