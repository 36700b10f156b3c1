package scan

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// indexedQuery finds much of what [mutate] makes.
func indexedQuery(t testing.TB, dir string) Query {
	return Query{Set: patterns(t, "/**/.env", "/**/secret/", dir+"/a/*/*"), Sockets: true, Repositories: true,
		Name: func(name string) bool { return name == "HEAD" }, Asked: func(name string) bool { return name == "c" }}
}

// disturb does one random thing more than mutate does: to times, modes, mounts and to the
// index itself.
func disturb(random *rand.Rand, dir, file string, mounts bool) {
	names := []string{"a", "b", "c", "a/b", "b/c", "b/secret", "a/.git"}
	p, q := dir+"/"+names[random.IntN(len(names))], dir+"/"+names[random.IntN(len(names))]
	switch random.IntN(16) {
	case 0, 1: // a time of before
		then := time.Unix(int64(random.IntN(3)), 0)
		os.Chtimes(p, then, then)
	case 2:
		if info, err := os.Stat(q); err == nil {
			os.Chtimes(p, info.ModTime(), info.ModTime())
		}
	case 3:
		os.Chmod(p, 0o755-os.FileMode(random.IntN(2))*0o111)
	case 4: // an exchange of two, with all their times
		unix.Renameat2(unix.AT_FDCWD, p, unix.AT_FDCWD, q, unix.RENAME_EXCHANGE)
	case 5: // for a link, and back
		if os.Rename(p, dir+".away") == nil {
			os.Symlink(q, p)
		}
	case 6:
		os.Remove(p)
		os.Rename(dir+".away", p)
	case 7: // so much that the index is written again
		for i := range 3 * worthSaving {
			put := fmt.Sprintf("%s/dir%d/%d", dir, i, random.IntN(2))
			if os.Remove(put) != nil {
				os.WriteFile(put, nil, 0o600)
			}
		}
	case 8:
		os.Truncate(file, int64(random.IntN(4000)))
	case 9:
		if b, err := os.ReadFile(file); err == nil && len(b) > 0 {
			b[random.IntN(len(b))] ^= byte(1 + random.IntN(255))
			os.WriteFile(file, b, 0o600)
		}
	case 10: // a writer was killed
		os.WriteFile(file+".next", []byte("half"), 0o600)
	case 11:
		os.Remove(file)
	case 12, 13:
		if mounts {
			unix.Mount(p, q, "", unix.MS_BIND, "")
		}
	case 14:
		if mounts && unix.Mount("tmpfs", p, "tmpfs", 0, "size=1m") == nil {
			os.WriteFile(p+"/.env", nil, 0o600)
		}
	case 15:
		if mounts {
			unix.Unmount(p, unix.MNT_DETACH)
		}
	}
}

// indexAgainstFullSearch has two processes at a time go by one index and compares what
// they find with a full search, whatever is done in between.
func indexAgainstFullSearch(t *testing.T, seed uint64, mounts bool) {
	dir, file := manyDirs(t)
	t.Cleanup(func() { // or a user could not remove it
		filepath.WalkDir(filepath.Dir(dir), func(p string, e fs.DirEntry, _ error) error {
			if e != nil && e.IsDir() {
				return os.Chmod(p, 0o755)
			}
			return nil
		})
	})
	if mounts {
		t.Cleanup(func() {
			for unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) == nil {
			}
		})
		if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	random, believed := rand.New(rand.NewPCG(seed, 1)), 0
	q := indexedQuery(t, dir)
	for step := range 150 {
		tick(t, filepath.Dir(file))
		for range 1 + random.IntN(3) {
			mutate(random, dir)
			disturb(random, dir, file, mounts)
		}
		full, err := New(q).Scan(dir)
		if err != nil {
			t.Fatal(err)
		}
		want := show(dir, full)
		var two sync.WaitGroup
		var got [2][]string
		var read [2]int
		for i := range got {
			two.Go(func() { got[i], read[i] = process(t, file, dir, q) })
		}
		two.Wait()
		for i := range got {
			if !slices.Equal(got[i], want) {
				t.Fatalf("seed %d, step %d: found\n  %s\nand by a full search\n  %s", seed, step, strings.Join(got[i], "\n  "), strings.Join(want, "\n  "))
			}
			if read[i] < worthSaving {
				believed++
			}
		}
	}
	if believed < 50 {
		t.Errorf("the index was believed in %d of 300 searches", believed)
	}
}

func TestIndexAgainstFullSearch(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			indexAgainstFullSearch(t, seed, false)
		})
	}
}

// inNamespaceEnv tells a test that it runs in a namespace of mounts of its own, and which
// its starter's is.
const inNamespaceEnv = "SCAN_TEST_MOUNTS"

// inNamespace runs a test again, in a process that may mount, and reports whether this is
// that process.
func inNamespace(t *testing.T) bool {
	t.Helper()
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	if starter := os.Getenv(inNamespaceEnv); starter != "" {
		if starter == own {
			t.Fatal("it would mount in its starter's namespace")
		}
		return true
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inNamespaceEnv+"="+own)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EACCES) {
		t.Skipf("no namespaces here: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v:\n%s", err, out)
	}
	return false
}

func TestIndexAgainstFullSearchOfMounts(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { indexAgainstFullSearch(t, seed, true) })
	}
}

// Of an overlay nothing is indexed, and of what is mounted in a tree only what that
// mount shows.
func TestIndexOfOverlay(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	root, file := manyDirs(t)
	base := t.TempDir()
	if err := unix.Mount("tmpfs", base, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(base, unix.MNT_DETACH)
	put(t, base, "upper/", "work/", "merged/")
	if err := unix.Mount("overlay", base+"/merged", "overlay", 0, fmt.Sprintf("userxattr,lowerdir=%s,upperdir=%s/upper,workdir=%s/work", root, base, base)); err != nil {
		t.Skipf("no overlays for users here: %v", err)
	}
	if _, read := process(t, file, base+"/merged", askedFor); read != 0 {
		t.Errorf("%d directories of an overlay would be believed later", read)
	}
	if _, err := os.Lstat(file); err == nil {
		t.Error("there is an index")
	}
}

// A disk that is full loses nothing but the next index.
func TestIndexOnFullDisk(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	root, _ := manyDirs(t)
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=64k,mode=700"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(disk, unix.MNT_DETACH)
	file := disk + "/trees"
	process(t, file, root, askedFor)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		put(t, root, fmt.Sprintf("more/%d/%s", i, strings.Repeat("n", 20)))
	}
	x := NewIndex(file)
	s := x.New("key", askedFor)
	s.now = func() time.Time { return time.Now().Add(time.Hour) }
	if _, err := s.Scan(root); err != nil {
		t.Fatal(err)
	}
	if err := x.Save(); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("%v", err)
	}
	if after, err := os.ReadFile(file); err != nil || !slices.Equal(after, before) {
		t.Errorf("the index is another: %v", err)
	}
	if _, err := os.Lstat(file + ".next"); err == nil {
		t.Error("half an index is left")
	}
}

// A writer that is killed at any instant leaves an index that is whole, or none.
func TestIndexOfKilledWriters(t *testing.T) {
	t.Parallel()
	const rootEnv, fileEnv = "SCAN_TEST_ROOT", "SCAN_TEST_FILE"
	if root := os.Getenv(rootEnv); root != "" {
		fmt.Println("ready")
		for {
			os.Remove(os.Getenv(fileEnv))
			process(t, os.Getenv(fileEnv), root, askedFor)
		}
	}
	root, file := manyDirs(t)
	random := rand.New(rand.NewPCG(5, 0))
	for range 25 {
		ctx, kill := context.WithCancel(t.Context())
		cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), rootEnv+"="+root, fileEnv+"="+file)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(random.IntN(20_000))*time.Microsecond, kill)
		if err := cmd.Wait(); err == nil {
			t.Fatal("the writer has ended by itself")
		}
		timer.Stop()
		kill()
		if b, err := os.ReadFile(file); err == nil {
			if trees, _ := readIndex(file, currentEra()); len(trees) != 1 {
				t.Fatalf("%d bytes with %d trees", len(b), len(trees))
			}
		}
		os.Remove(file)
		process(t, file, root, askedFor)
		if _, read := process(t, file, root, askedFor); read != 0 {
			t.Fatal("nothing is written any more")
		}
	}
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}
