package host

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/scan"
	"github.com/sbxhost/sbxhost/workspace"
)

// A RepositoryReport is a git repository that came to be in a writable directory
// while a command ran, and what git would run or read because of it.
type RepositoryReport struct {
	Path string
	// Hooks are the executable files in its hooks directory.
	Hooks []string
	// Keys are the keys of its configuration that name commands or further
	// configuration.
	Keys []string
	// Alternates says that it takes objects from elsewhere.
	Alternates bool
}

func repositoryPaths(found *scan.Result) (list []string) {
	for _, f := range found.Found {
		if f.What == scan.Repository || f.What == scan.Bare {
			list = append(list, f.Path)
		}
	}
	return list
}

// instructionPaths lists what tools of the host take for instructions.
func instructionPaths(found *scan.Result) (list []string) {
	for _, f := range found.Found {
		if f.What == scan.Asked {
			list = append(list, f.Path)
		}
	}
	return list
}

// A madeReport is what came to be while a command ran.
type madeReport struct {
	repositories []RepositoryReport
	instructions []string
}

// made looks for it.
func (r *resolved) made() (report madeReport) {
	found, err := r.again()
	if err != nil {
		return report
	}
	for _, p := range instructionPaths(found) {
		held := slices.ContainsFunc(r.Holds, func(h view.Hold) bool { return h.Path == p })
		if !held && !slices.Contains(r.instructions, p) && len(report.instructions) < maxMade {
			report.instructions = append(report.instructions, p)
		}
	}
	for _, p := range repositoryPaths(found) {
		if slices.Contains(r.repositories, p) || len(report.repositories) == maxMade {
			continue
		}
		one := RepositoryReport{Path: p}
		gitDir := filepath.Join(p, ".git")
		if layout, err := workspace.GitDirs(p); err == nil && layout.GitDir != "" {
			gitDir = layout.CommonDir
		}
		one.Keys = workspace.CommandKeys(gitDir)
		entries, _ := os.ReadDir(filepath.Join(gitDir, "hooks"))
		for _, e := range entries {
			if info, err := os.Stat(filepath.Join(gitDir, "hooks", e.Name())); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 &&
				filepath.Ext(e.Name()) != ".sample" {
				one.Hooks = append(one.Hooks, e.Name())
			}
		}
		_, err := os.Lstat(filepath.Join(gitDir, "objects/info/alternates"))
		one.Alternates = err == nil
		report.repositories = append(report.repositories, one)
	}
	return report
}

// maxMade bounds what is reported of one command.
const maxMade = 100

// Executes reports whether a git that is run there, outside of a sandbox, would
// execute something of it.
func (r *RepositoryReport) Executes() bool { return len(r.Hooks)+len(r.Keys) > 0 }

// String says it in a sentence.
func (r *RepositoryReport) String() string {
	s := fmt.Sprintf("the command made the git repository %s", r.Path)
	if len(r.Hooks) > 0 {
		s += fmt.Sprintf(", with the hooks %q", r.Hooks)
	}
	if len(r.Keys) > 0 {
		s += fmt.Sprintf(", whose configuration sets %q", r.Keys)
	}
	if r.Alternates {
		s += ", which takes objects from elsewhere"
	}
	if r.Executes() {
		s += ": a git that is run there outside of a sandbox would act on them"
	}
	return s
}
