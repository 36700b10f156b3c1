package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sbxhost/sbxhost/glob"
	"github.com/sbxhost/sbxhost/scan"
)

// searchTable tells what the search of a large workspace costs.
type searchTable struct {
	Files   int   `json:"files"`
	OneShot []row `json:"one_shot"`
	Alone   []row `json:"alone"` // in this process, of the first
}

// filesADirectory are those of two workspaces with the same number of files.
var filesADirectory = [...]int{100, 10}

// measureSearch compares one-shot runs in workspaces of so many files, with and without
// the index that an earlier run has left, and the search alone.
func measureSearch(ctx context.Context, s *scene, rounds, files int) (*searchTable, error) {
	var roots []string
	for _, each := range filesADirectory {
		root, err := s.makeFiles(files/each, each)
		if err != nil {
			return nil, err
		}
		roots = append(roots, root)
	}
	time.Sleep(settling) // what changed just now is not indexed
	oneShot := []contender{s.plainBwrap(ctx)}
	var alone []contender
	for i, root := range roots {
		directories := thousands(files / filesADirectory[i])
		for _, index := range []string{"on", "off"} {
			oneShot = append(oneShot, contender{name: fmt.Sprintf("one-shot, %s directories, index %s", directories, index), run: func() error {
				cmd := s.sbxhost(ctx, "native", "/bin/true")
				cmd.Dir, cmd.Env = root, append(cmd.Env, "SBXHOST_INDEX="+index)
				return s.run(cmd)
			}})
		}
		pattern, err := glob.Parse("/**/*.pem")
		if err != nil {
			return nil, err
		}
		q := scan.Query{Set: glob.NewSet(pattern), Sockets: true, Repositories: true}
		search := func(index *scan.Index) error {
			_, err := index.New("search", q).Scan(root)
			return err
		}
		file := filepath.Join(s.sessions, fmt.Sprint("index", i))
		first := scan.NewIndex(file)
		if err := search(first); err != nil {
			return nil, err
		}
		if err := first.Save(); err != nil {
			return nil, err
		}
		alone = append(alone,
			contender{name: "search, " + directories + " directories, in full", run: func() error { return search(nil) }},
			contender{name: "search, " + directories + " directories, indexed", run: func() error { return search(scan.NewIndex(file)) }})
	}
	t := &searchTable{Files: files}
	var err error
	if t.OneShot, err = compare(ctx, oneShot, rounds); err != nil {
		return t, err
	}
	t.Alone, err = compare(ctx, alone, rounds)
	return t, err
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
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
