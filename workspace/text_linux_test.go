package workspace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// What a link leads to is looked at as git would read it, links within are not.
func TestLooksThroughALink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	state, file := filepath.Join(dir, "rebase-merge"), filepath.Join(dir, "to/git-rebase-todo")
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("pick"), 0o644), os.Symlink("to", state)); err != nil {
		t.Fatal(err)
	}
	before := Fingerprint(state, NewBudget())
	if err := os.WriteFile(file, []byte("exec"), 0o644); err != nil {
		t.Fatal(err)
	}
	if Fingerprint(state, NewBudget()) == before {
		t.Error("it looks as before")
	}
}

// A page of a file on tmpfs that is read first can be written to by a mapping without a change of
// the file's times.
func TestWrittenByAMapping(t *testing.T) {
	t.Parallel()
	fd, err := unix.MemfdCreate("mapped", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte("good")); err != nil {
		t.Fatal(err)
	}
	page, err := unix.Mmap(fd, 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(page)
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	if string(page) != "good" {
		t.Fatalf("%q", page)
	}
	stamp, looks := stampWithin(path, maxGitConfig), Fingerprint(path, NewBudget())
	if now := stampWithin(path, maxGitConfig); now != stamp || Fingerprint(path, NewBudget()) != looks {
		t.Error("it looks otherwise without a change")
	}
	copy(page, "evil")
	if now := stampWithin(path, maxGitConfig); now == stamp || Fingerprint(path, NewBudget()) == looks {
		t.Error("it looks as before")
	}
}

// A read of root's /proc/kmsg waits, and takes what another program would read. Such files have no
// size.
func TestLooksAtNothingInProc(t *testing.T) {
	t.Parallel()
	path := fmt.Sprintf("/proc/%d/limits", os.Getpid())
	if text, err := hostpath.ReadNoSymlinks(path, maxGitConfig); err != nil || len(text) > 0 {
		t.Errorf("%q, %v", text, err)
	}
	if stampWithin(path, maxGitConfig).text != stampWithin("/proc/self/status", maxGitConfig).text {
		t.Error("the text counts")
	}
	need(t, "git")
	base := tempDir(t)
	top := repo(t, base+"/proj")
	tree(t, top, map[string]string{".git/config": "[include]\npath = limits\n", ".git/limits": "-> " + path})
	w, _ := obeyed(t, base, nil)
	for _, at := range []string{".git/limits", ".git/config"} {
		if i := w.inspect(t, top); !strings.Contains(strings.Join(i.Unclear, " "), top+"/"+at) || !strings.Contains(strings.Join(i.Unclear, " "), "not a regular file") {
			t.Errorf("git was asked about %s: %q", at, i.Unclear)
		}
		if err := replace(top+"/.git/config", func(p string) error { return os.Symlink(path, p) }); err != nil {
			t.Fatal(err)
		}
	}
}

// A command can give one file very many names with long paths.
func TestLooksAtManyLongPaths(t *testing.T) { // not parallel: it counts what the process allocates
	dir := t.TempDir()
	deep := filepath.Join(dir, strings.Repeat("/"+strings.Repeat("x", 255), 13))
	file := filepath.Join(dir, "file")
	if err := errors.Join(os.MkdirAll(deep, 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		d := filepath.Join(deep, strconv.Itoa(i))
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		for j := range 200 {
			if err := os.Link(file, filepath.Join(d, strconv.Itoa(j))); err != nil {
				t.Fatal(err)
			}
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	Fingerprint(dir, NewBudget())
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 40 {
		t.Errorf("it allocates %d MiB", n)
	}
}

// A command can have very many repositories, each with very many names of one large file.
func TestLooksAtNoMoreThanIsLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "large")
	if err := errors.Join(os.WriteFile(file, make([]byte, maxGitConfig), 0o644), os.Mkdir(filepath.Join(dir, "full"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for i := range 2 * maxFingerprints / maxGitConfig {
		if err := os.Link(file, filepath.Join(dir, "full", strconv.FormatInt(i, 10))); err != nil {
			t.Fatal(err)
		}
	}
	left := NewBudget()
	full := filepath.Join(dir, "full")
	before := Fingerprint(full, left)
	if left.fingerprints > maxGitConfig || left.fingerprints < 0 {
		t.Errorf("%d bytes are left", left.fingerprints)
	}
	left.fingerprints = 2048
	if now := Fingerprint(full, left); now == before || left.fingerprints > 0 || now == Fingerprint(full, left) {
		t.Error("a directory looks as before, though not all of it was looked at")
	}
	if was := Fingerprint(file, left); was != Fingerprint(file, left) {
		t.Error("a file looks otherwise without a change")
	}
	many := filepath.Join(dir, "many")
	if err := os.Mkdir(many, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range maxFiles {
		if err := os.WriteFile(filepath.Join(many, strconv.Itoa(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if was := Fingerprint(many, NewBudget()); was == Fingerprint(many, NewBudget()) {
		t.Error("a directory looks as before, though not all of it was looked at")
	}
}

// A command can have very many repositories, each with very many hooks that are one large file.
func TestActionsReadNoHooks(t *testing.T) { // not parallel: it counts what the process allocates
	need(t, "git")
	base := tempDir(t)
	top := repo(t, base+"/proj")
	large := filepath.Join(top, "large")
	err := os.WriteFile(large, make([]byte, maxGitConfig), 0o755)
	for i := range 200 {
		err = errors.Join(err, os.Link(large, filepath.Join(top, ".git/hooks", strconv.Itoa(i))))
	}
	if err != nil {
		t.Fatal(err)
	}
	w, _ := obeyed(t, base, nil)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	found := w.GitActions(t.Context(), layoutOf, func(string) bool { return true }, []string{top}, nil, NewBudget())[top+"/.git"]
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 60 || len(found.On) < 200 {
		t.Errorf("of %d things, it allocates %d MiB", len(found.On), n)
	}
}

// heldDir has TestHeld fill a look at a repository in a process of its own.
const heldDir = "SBXHOST_TEST_HELD"

// Whatever a command has written, one look holds no more than 128 MiB.
func TestHeld(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv(heldDir); dir != "" {
		left, layout := NewBudget(), GitLayout{GitDir: dir, CommonDir: dir}
		layout.WorkTrees(dir, left)
		now := Acts{}
		now.AddPending(layout, left)
		now.Since(nil, false, left)
		if left.indexes > maxIndexes-3*maxIndex {
			t.Errorf("%+v is left", left)
		}
		var most runtime.MemStats
		if runtime.ReadMemStats(&most); most.Sys > 128<<20 {
			t.Errorf("it holds %d MiB", most.Sys>>20)
		}
		return
	}
	dir := tempDir(t)
	// Files of one directory, a tree of as many directories as are compared, and holes.
	var index bytes.Buffer
	const files, dirs = 190_000, 130_000
	index.WriteString("DIRC")
	binary.Write(&index, binary.BigEndian, [2]uint32{2, files})
	for i := range files {
		var entry [72]byte
		binary.BigEndian.PutUint32(entry[24:], 0o100644)
		binary.BigEndian.PutUint16(entry[60:], 8)
		copy(entry[62:], fmt.Sprintf("f%07d", i))
		index.Write(entry[:])
	}
	tree := fmt.Appendf(nil, "\x00-1 %d\n", dirs)
	for i := range dirs {
		tree = fmt.Appendf(tree, "%050d\x00-1 0\n", i)
	}
	index.WriteString("TREE")
	binary.Write(&index, binary.BigEndian, uint32(len(tree)))
	index.Write(tree)
	index.WriteString("hole")
	binary.Write(&index, binary.BigEndian, uint32(maxIndex-index.Len()-4-20))
	for name, text := range map[string][]byte{"index": index.Bytes(), "packed-refs": nil} {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(at, text, 0o600), os.Truncate(at, maxIndex)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := readIndex(filepath.Join(dir, "index"), dir, &NewBudget().indexes); err != nil {
		t.Fatalf("the index is not read to its end: %v", err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestHeld$")
	cmd.Env = append(os.Environ(), heldDir+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// A directory that nobody can search says nothing of a commondir.
func TestGitDirThatCannotBeSearched(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(top), 0o755), os.Mkdir(top+"/.git", 0)); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error)
	go func() {
		runtime.LockOSThread()                                            // never unlocked: the thread ends with the goroutine
		if err := unix.Setfsuid(65534); os.Geteuid() == 0 && err != nil { // root can search all directories
			answer <- err
			return
		}
		_, err := GitDirs(top)
		answer <- err
	}()
	if err := <-answer; err == nil || !strings.Contains(err.Error(), "it needs a readable HEAD") {
		t.Error(err)
	}
}

// A command makes a configuration that git cannot read, until somebody changes its mode.
func TestInspectAnUnreadableConfiguration(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	top := repo(t, base+"/proj")
	w := inspector(t, base)
	if err := errors.Join(os.Chmod(filepath.Dir(base), 0o755), os.Chmod(top+"/.git/config", 0)); err != nil {
		t.Fatal(err)
	}
	acts := make(chan GitActions)
	go func() {
		runtime.LockOSThread() // as above
		_ = unix.Setfsuid(65534)
		acts <- w.GitActions(t.Context(), layoutOf, func(string) bool { return true }, []string{top}, nil, NewBudget())
	}()
	if change := (<-acts).Since(nil, false)[top]; !strings.Contains(strings.Join(change.Unclear, " "), "permission denied") {
		t.Errorf("%+v", change)
	}
}

// A command can lead git's configuration to a device that acts when it is opened. A fifo stands for one here.
func TestOpensNoDevice(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	top := repo(t, base+"/proj")
	w, _ := obeyed(t, base, nil)
	if err := unix.Mkfifo(base+"/device", 0o644); err != nil {
		t.Fatal(err)
	}
	if err := replace(top+"/.git/config", func(p string) error { return os.Symlink(base+"/device", p) }); err != nil {
		t.Fatal(err)
	}
	opens, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(opens)
	if _, err := unix.InotifyAddWatch(opens, base+"/device", unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	if i := w.inspect(t, top); !strings.Contains(strings.Join(i.Unclear, " "), "not a regular file") {
		t.Errorf("unclear: %q", i.Unclear)
	}
	if _, err := unix.Read(opens, make([]byte, 1<<10)); err != unix.EAGAIN {
		t.Error("the device was opened")
	}
}

// Git opens what a symlink leads to, outside of the sandbox: root's git would start a watchdog, and a fifo
// would lose its message.
func TestGitOpensNoTargetOfALink(t *testing.T) {
	t.Parallel()
	need(t, "git")
	long := "refs/heads" + strings.Repeat("/"+strings.Repeat("x", 200), 2)
	for at, head := range map[string]string{
		"info/exclude": "", "rules": "", "packed-refs": "", "refs/heads/main": "", "refs/heads/chain": "", "refs/heads/dir": "ref: refs/heads/dir/fifo\n",
		"refs/heads/of-a-link": "-> refs/heads/of-a-link", "refs/heads/space\u00a0": "ref: refs/heads/space\u00a0\n", long: "ref: " + long + "\n",
		"worktrees/work/refs/bisect/x": "ref: refs/bisect/x\n",
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			base := tempDir(t)
			top := repo(t, base+"/proj")
			tree(t, base, map[string]string{"home/.gitconfig": "[user]\nname = x\n[includeIf \"onbranch:**\"]\npath = inc\n", "home/inc": "[core]\nexcludesFile = .git/rules\n"})
			if err := unix.Mkfifo(base+"/fifo", 0o600); err != nil {
				t.Fatal(err)
			}
			w, _ := obeyed(t, base, nil)
			work := top
			if strings.HasPrefix(at, "worktrees/") {
				work = base + "/work"
				git(t, top, "worktree", "add", "-q", work)
			}
			git(t, top, "symbolic-ref", "HEAD", "refs/heads/main")
			tree(t, work, map[string]string{".gitignore": "x\n"})
			l, err := GitDirs(work)
			if err != nil {
				t.Fatal(err)
			}
			ask := func() int {
				return len(w.GitControls(t.Context(), work, l, nil).Settings.Config)
			}
			if ask() == 0 {
				t.Error("control: git answers nothing")
			}
			target := base + "/fifo"
			if at == "refs/heads/dir" {
				target = base
			}
			if head != "" {
				os.Remove(l.GitDir + "/HEAD")
				tree(t, l.GitDir, map[string]string{"HEAD": head})
			}
			if at == "refs/heads/chain" {
				tree(t, top, map[string]string{".git/refs/heads/main": "ref: " + at + "\n"})
			}
			if at == "packed-refs" {
				os.Remove(top + "/.git/refs/heads/main")
			}
			os.Remove(top + "/.git/" + at)
			tree(t, top, map[string]string{".git/" + at: "-> " + target})
			opened := make(chan error, 1)
			go func() {
				f, err := os.OpenFile(base+"/fifo", os.O_WRONLY, 0) // it waits for a reader
				f.Close()
				opened <- err
			}()
			ask()
			select {
			case <-opened:
				t.Error("git opened it")
			case <-time.After(100 * time.Millisecond):
				fd, err := os.OpenFile(base+"/fifo", os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				<-opened
				fd.Close()
			}
		})
	}
}

// A process that goes on in a session can exchange a configuration for a symlink, and back, while git
// runs. Git does not open it.
func TestInspectWhileAConfigurationIsExchanged(t *testing.T) {
	t.Parallel()
	need(t, "git")
	base := tempDir(t)
	top := repo(t, base+"/proj")
	tree(t, base, map[string]string{"secret": "[credential \"https://hunter2@host\"]\nhelper = x\n[core]\nfsmonitor = x\n"})
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	config := top + "/.git/config"
	script := exec.Command("sh", "-c", `mkdir "$1" && cat >"$1/git" && chmod 755 "$1/git"`, "sh", base+"/bin")
	script.Stdin = strings.NewReader(fmt.Sprintf("#!/bin/sh\n/bin/mv %[1]s %[1]s.own\n/bin/ln -s %[2]s %[1]s\n%[3]s \"$@\"\n/bin/mv %[1]s.own %[1]s\n", config, base+"/secret", real))
	if err := script.Run(); err != nil {
		t.Fatal(err)
	}
	tree(t, base, map[string]string{"other": "dir"})
	w := mustNew(t, Options{Root: base + "/other", LookupEnv: lookupIn(map[string]string{"PATH": base + "/bin", "GIT_CONFIG_NOSYSTEM": "1"})})
	if i := fmt.Sprint(w.inspect(t, top)); strings.Contains(i, "hunter2") || strings.Contains(i, "fsmonitor") || !strings.Contains(i, top) {
		t.Errorf("it tells %s", i)
	}
}
