package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// measureSearch compares one-shot runs in a small workspace and in two of so many files: as by default, and
// where a pattern has all of it searched.
func measureSearch(ctx context.Context, s *scene, o options, r *report) error {
	workspaces := []struct {
		each  int // files in a directory
		bound float64
	}{{100, 3}, {10, 5}}
	const small = "one-shot, small"
	group := []contender{s.plainBwrap(ctx), {name: small, run: func() error { return s.run(s.sbxhost(ctx, "native", "/bin/true")) }}}
	name := func(each int) string { return fmt.Sprintf("one-shot, %d directories", o.files/each) }
	pattern := func(each int) string { return name(each) + ", a pattern" }
	for _, w := range workspaces {
		root, err := s.makeFiles(o.files/w.each, w.each)
		if err != nil {
			return err
		}
		group = append(group, contender{name: name(w.each), run: func() error {
			cmd := s.sbxhost(ctx, "native", "/bin/true")
			cmd.Dir = root
			return s.run(cmd)
		}})
		group = append(group, contender{name: pattern(w.each), run: func() error {
			cmd := s.sbxhost(ctx, "patterns", "/bin/true")
			cmd.Dir = root
			return s.run(cmd)
		}})
	}
	if err := r.compare(ctx, fmt.Sprintf("Workspaces of %d files", o.files), group, o.rounds); err != nil {
		return err
	}
	for _, w := range workspaces {
		r.atMost(name(w.each)+", of a small workspace", r.of(name(w.each), small), 1.2, "x")
		r.atMost(pattern(w.each)+", of plain bwrap", r.of(pattern(w.each), namePlain), w.bound, "x")
	}
	return nil
}

// makeFiles gives a workspace of so many directories, ten in each of a hundred in each of those at the top.
func (s *scene) makeFiles(directories, each int) (string, error) {
	root := filepath.Join(s.dir, fmt.Sprint("large", directories))
	for i := range directories {
		dir := filepath.Join(root, fmt.Sprint("part", i/1000), fmt.Sprint("module", i/10%100), fmt.Sprint("leaf", i%10))
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
