package containerinit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

func TestOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	sub := filepath.Join(dir, "sub")
	if err := errors.Join(os.Mkdir(sub, 0o755), os.Symlink(sub, link), os.WriteFile(filepath.Join(sub, "f"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	own := func(o string, dirs ...string) error {
		return exec.Command("/proc/self/exe", OwnArgv(o, dirs...)...).Run()
	}
	me := fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
	if os.Getuid() == 0 {
		me = "4242:4243"
	}
	if err := own(me, sub, dir); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(sub)
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); fmt.Sprintf("%d:%d", st.Uid, st.Gid) != me || info.Mode().Perm() != 0o755 {
		t.Errorf("owner %d:%d, mode %v", st.Uid, st.Gid, info.Mode())
	}
	if err := own(Anybody, sub); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(sub); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	for name, words := range map[string][]string{
		"a symlink": OwnArgv(me, link), "a file": OwnArgv(me, filepath.Join(sub, "f")), "nothing": OwnArgv(me, filepath.Join(dir, "no")),
		"no number": {ownArg, "x:1", sub}, "to leave it": {ownArg, "4294967295:1", sub}, "a name": {ownArg, "root", sub},
	} {
		if exec.Command("/proc/self/exe", words...).Run() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func FuzzOwner(f *testing.F) {
	f.Add("0:0")
	f.Add(Anybody)
	f.Add("4294967295:-1")
	f.Fuzz(func(t *testing.T, s string) {
		if uid, gid, err := parseOwner(s); err == nil && (uid < 0 || gid < 0) {
			t.Errorf("%q: %d, %d", s, uid, gid)
		}
	})
}
