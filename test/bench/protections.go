package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
)

// masks is how many files the sandbox with masks hides.
const masks = 200

const (
	nameBare      = "raw bwrap, no protections"
	nameFiltered  = "raw bwrap with the filter"
	nameGivenUp   = "warm, empty workspace, names given up"
	nameSearched  = "warm, repository, names given up"
	nameProtected = "warm, repository, all by default"
	nameMasked    = "the same and 200 masks"
	nameLimited   = "the same and limits by cgroup"
	nameAllOnce   = "one-shot, repository, all by default"
)

const (
	sandboxGivenUp = "given-up"
	sandboxMasked  = "masked"
	sandboxLimited = "limited"
)

// protectionTable tells what protections cost.
type protectionTable struct {
	Warm    []latencyRow     `json:"warm"`
	Once    []latencyRow     `json:"once"`
	Costs   []protectionCost `json:"costs"`
	Limited string           `json:"not_limited,omitempty"` // why there are no limits by cgroup
}

// protectionCost is the difference of the medians of two contenders.
type protectionCost struct {
	Name string  `json:"name"`
	Cost float64 `json:"cost_ms"`
	Of   float64 `json:"of_raw"` // of the bare launch
}

func measureProtections(ctx context.Context, s *scene, rounds int) (_ protectionTable, err error) {
	repository, err := s.makeRepository()
	if err != nil {
		return protectionTable{}, err
	}
	given := host.Definition{Engine: "native", ProtectPathsExcept: host.DefaultProtected()}
	o := libraryOptions(s.dir)
	o.Sandboxes = map[string]host.Definition{sandboxGivenUp: given}
	empty, err := host.New(ctx, o)
	if err != nil {
		return protectionTable{}, err
	}
	defer func() { err = errors.Join(err, empty.Close()) }()
	o.Dir, o.Workspace.Root = repository, repository
	o.Sandboxes = map[string]host.Definition{
		sandboxGivenUp: given,
		sandboxFast:    {Engine: "native"},
		sandboxMasked:  {Engine: "native", DenyPaths: []string{"secrets/*"}},
		sandboxLimited: {Engine: "native", Limits: host.Limits{PIDs: 500, Memory: 1 << 30}},
	}
	full, err := host.New(ctx, o)
	if err != nil {
		return protectionTable{}, err
	}
	defer func() { err = errors.Join(err, full.Close()) }()

	explanation, err := full.Command(ctx, sandboxMasked, "/bin/true").Explain()
	if err != nil {
		return protectionTable{}, err
	}
	if n := hiddenIn(explanation.Spec.Table); n != masks {
		return protectionTable{}, fmt.Errorf("%d masks where %d were asked for", n, masks)
	}
	bare := contender{name: nameBare, run: func() error { return s.runRaw(ctx, s.bare, "/bin/true") }}
	warm := func(name string, h *host.Host, sandbox string) contender {
		return contender{name: name, run: func() error { return runLibrary(ctx, h, sandbox) }}
	}
	list := []contender{
		bare,
		{name: nameFiltered, run: func() error { return s.runRaw(ctx, s.raw, "/bin/true") }},
		warm(nameGivenUp, empty, sandboxGivenUp),
		warm(nameSearched, full, sandboxGivenUp),
		warm(nameProtected, full, sandboxFast),
		warm(nameMasked, full, sandboxMasked),
	}
	var t protectionTable
	switch err := runLibrary(ctx, full, sandboxLimited); {
	case err == nil:
		list = append(list, warm(nameLimited, full, sandboxLimited))
	case errors.Is(err, shared.ErrUnavailable), errors.Is(err, shared.ErrUnsupported):
		t.Limited = err.Error()
	default:
		return t, err
	}
	if t.Warm, err = compare(ctx, list, rounds); err != nil {
		return t, err
	}
	t.Costs = costs(t.Warm)
	t.Once, err = compare(ctx, []contender{bare, {name: nameAllOnce, run: func() error {
		cmd := s.sbxhost(ctx, s.lean, "/bin/true")
		cmd.Dir = repository
		return s.run(cmd)
	}}}, rounds)
	return t, err
}

// costs are differences between rows that differ by one protection.
func costs(rows []latencyRow) []protectionCost {
	p50 := map[string]float64{}
	for _, row := range rows {
		p50[row.Name] = row.P50
	}
	var list []protectionCost
	for _, of := range [][3]string{
		{"filter of system calls, no user namespaces", nameBare, nameFiltered},
		{"search for repositories and sockets, git guarded", nameGivenUp, nameSearched},
		{"protected names and what holds their places", nameSearched, nameProtected},
		{"200 masks", nameProtected, nameMasked},
		{"limits by cgroup", nameProtected, nameLimited},
	} {
		without, with := p50[of[1]], p50[of[2]]
		if without > 0 && with > 0 {
			list = append(list, protectionCost{of[0], with - without, ratio(with-without, p50[nameBare])})
		}
	}
	return list
}

// makeRepository gives a workspace such as people have: a repository, 100
// directories with 10 files each, and the files that masks hide.
func (s *scene) makeRepository() (string, error) {
	root := filepath.Join(s.dir, "repository")
	files := map[string]string{
		".git/HEAD":   "ref: refs/heads/main\n",
		".git/config": "[core]\n\trepositoryformatversion = 0\n",
	}
	for dir := range 100 {
		for file := range 10 {
			files[fmt.Sprintf("src/package%d/file%d", dir, file)] = ""
		}
	}
	for i := range masks {
		files[fmt.Sprintf("secrets/key%d", i)] = ""
	}
	for _, dir := range []string{"hooks", "info", "objects", "refs/heads"} {
		if err := os.MkdirAll(filepath.Join(root, ".git", dir), 0o755); err != nil {
			return "", err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(file, []byte(files[name]), 0o600); err != nil {
			return "", err
		}
	}
	time.Sleep(settling)
	return root, nil
}

// settling is how old a configuration of git must be before an answer of git about
// it is remembered: a change in the same tick of a file system's clock would not
// be seen. Those of people's repositories are older.
const settling = 2*time.Second + 100*time.Millisecond

// hiddenIn counts the entries that deny_paths hides.
func hiddenIn(table []shared.Entry) (n int) {
	for _, e := range table {
		if e.Access == shared.Hidden && strings.HasPrefix(e.Why, "deny_paths") {
			n++
		}
	}
	return n
}
