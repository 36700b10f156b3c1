package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sbxhost/sbxhost/hostpath"
)

// Two that pin at once each know the file as it was before the other.
func TestPinsAtOnceLoseNothing(t *testing.T) {
	t.Parallel()
	const engines = 6
	first, _, _, path := testApp(t, nil, fastConfig)
	dir := filepath.Dir(path)
	text := "# mine\n" + fastConfig
	for i := range engines {
		program := filepath.Join(dir, fmt.Sprint("engine", i))
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("engine \"e%d\" { source = %q } # of %d\n", i, program, i)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range engines {
		out := &output{}
		a := &app{stdin: strings.NewReader(""), stdout: out, stderr: out, dir: first.dir, environ: first.environ}
		group.Go(func() {
			if status := a.run([]string{"engines", "pin", "-config", path, fmt.Sprint("e", i)}); status != 0 {
				t.Errorf("status %d: %s", status, out)
			}
		})
	}
	group.Wait()
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(after), "sha256"); n != engines || !strings.HasPrefix(string(after), "# mine\n"+fastConfig) {
		t.Errorf("%d of %d pins are in it:\n%s", n, engines, after)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".sbxhost-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// What an editor has written in between, which knows no lock, stays.
func TestReplaceFileKeepsWhatIsNew(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("of the editor"), 0o644); err != nil {
		t.Fatal(err)
	}
	dir, err := hostpath.OpenDir("/", filepath.Dir(path), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	err = replaceFile(dir, "file", []byte("as it was read"), []byte("new"))
	if err == nil || !strings.Contains(err.Error(), "was not written: it was changed meanwhile") {
		t.Errorf("error %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "of the editor" {
		t.Errorf("it says %q, %v", text, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
