package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// measureSearch compares one-shot runs in two workspaces of so many files, with and without
// the index that an earlier run has left.
func measureSearch(ctx context.Context, s *scene, o options, r *report) error {
	workspaces := []struct {
		each  int // files in a directory
		bound float64
	}{{100, 3}, {10, 5}}
	group := []contender{s.plainBwrap(ctx)}
	name := func(each int, index string) string {
		return fmt.Sprintf("one-shot, %d directories, index %s", o.files/each, index)
	}
	for _, w := range workspaces {
		root, err := s.makeFiles(o.files/w.each, w.each)
		if err != nil {
			return err
		}
		for _, index := range []string{"on", "off"} {
			group = append(group, contender{name: name(w.each, index), run: func() error {
				cmd := s.sbxhost(ctx, "native", "/bin/true")
				cmd.Dir, cmd.Env = root, append(cmd.Env, "SBXHOST_INDEX="+index)
				return s.run(cmd)
			}})
		}
	}
	time.Sleep(settling) // what changed just now is not indexed
	if err := r.compare(ctx, fmt.Sprintf("Workspaces of %d files", o.files), group, o.rounds); err != nil {
		return err
	}
	for _, w := range workspaces {
		r.atMost(name(w.each, "on")+", of plain bwrap", r.of(name(w.each, "on"), namePlain), w.bound, "x")
	}
	return nil
}

// makeFiles gives a workspace of so many directories, a hundred in each above them.
func (s *scene) makeFiles(directories, each int) (string, error) {
	root := filepath.Join(s.dir, fmt.Sprint("large", directories))
	for i := range directories {
		dir := filepath.Join(root, fmt.Sprint("part", i/100), fmt.Sprint("module", i%100))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
		for k := range each {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%d.js", k)), nil, 0o600); err != nil {
				return "", err
			}
		}
	}
	return root, nil
}
