package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
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
		a := &cli.App{Stdin: strings.NewReader(""), Stdout: out, Stderr: out, Dir: first.Dir, Environ: first.Environ}
		group.Go(func() {
			if status := runLine(a, []string{"engines", "pin", "-config", path, fmt.Sprint("e", i)}); status != 0 {
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
