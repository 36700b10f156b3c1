package main

import (
	"context"
	"fmt"
	"path/filepath"
)

// measureSearch compares one-shot runs in a small workspace and in two of so many files: as by default,
// where a pattern has all of it searched, and in repositories.
func measureSearch(ctx context.Context, s *scene, o options, r *report) {
	const small = "one-shot, small"
	group := []contender{s.plainBwrap(ctx), {name: small, run: s.oneShot(ctx, "native", s.workspace)}}
	var goals []func()
	for _, w := range []struct {
		each  int // files in a directory
		bound float64
	}{{100, 3}, {10, 5}} {
		name := fmt.Sprintf("one-shot, %d directories", o.files/w.each)
		pattern, root := name+", a pattern", filepath.Join(s.dir, fmt.Sprint("large", w.each))
		// Ten directories are in each of a hundred in each of those at the top.
		plant(root, o.files, func(i int) (string, string) {
			dir := i / w.each
			return fmt.Sprintf("part%d/module%d/leaf%d/file%d.js", dir/1000, dir/10%100, dir%10, i%w.each), ""
		})
		group = append(group, contender{name: name, run: s.oneShot(ctx, "native", root)}, contender{name: pattern, run: s.oneShot(ctx, "patterns", root)})
		goals = append(goals, func() {
			r.near(name, small, 1.2)
			r.near(pattern, namePlain, w.bound)
		})
	}
	r.compare(ctx, fmt.Sprintf("Workspaces of %d files", o.files), group, o.rounds)
	for _, goal := range goals {
		goal()
	}
	const few, all = "one-shot, few files in git", "one-shot, all files in git"
	group = nil
	for _, c := range [...]struct{ name, dir string }{{few, "few"}, {all, "large10"}} {
		root := filepath.Join(s.dir, c.dir)
		plant(root, 1, func(int) (string, string) { return "own", "" })
		s.commitAll(ctx, root)
		group = append(group, contender{name: c.name, run: s.oneShot(ctx, "native", root)})
	}
	r.compare(ctx, fmt.Sprintf("Repositories, the second of %d files", o.files), group, o.rounds)
	r.near(all, few, 1.2)
}
