package host

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/sbxhost/sbxhost/scan"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/stubs"
	"github.com/sbxhost/sbxhost/workspace"
)

const (
	// maxNested is how many repositories in writable directories keep working as
	// repositories: each needs a dozen mounts. Of those beyond it, all of .git is
	// read-only, which needs one.
	maxNested = 32
	// maxRepositories is how many there can be.
	maxRepositories = 1000
)

// nested guards the repositories that lie in writable directories, besides those
// at their tops.
func (r *resolver) nested(m *mounts, s *survey, guards []guard) ([]guard, error) {
	n := 0
	for _, f := range s.found.Found {
		if f.What != scan.Repository && f.What != scan.Bare || !m.creatable(filepath.Join(f.Path, ".git")) {
			continue
		}
		if slices.ContainsFunc(m.spec.Table, func(have shared.Entry) bool { return have.Source == f.Path && have.Access == shared.ReadWrite }) {
			continue // at the top
		}
		if r.closed(f.Path) != "" {
			// Not even its layout matters to a command.
			guards = append(guards, guard{path: f.Path, origin: "protected: git, in a directory that commands cannot search"})
			continue
		}
		if n++; n > maxRepositories {
			return nil, attributeError("workspace.root", fmt.Sprintf("more than %d git repositories lie in what commands can write to", maxRepositories),
				"choose a smaller workspace, or say read_only = true")
		}
		if n > maxNested {
			top := filepath.Join(f.Path, ".git")
			if f.What == scan.Bare {
				top = f.Path
			}
			guards = m.guard(guards, f.Path, top, "protected: git, of one repository among many", stubs.Stub{Path: top})
			continue
		}
		layout, more := m.layout(f.Path)
		guards = append(guards, r.guardConfigured(m, f.Path, layout, more)...)
	}
	if n > maxNested {
		m.notes = append(m.notes, fmt.Sprintf("%d git repositories lie in what commands can write to; those beyond the first %d cannot be committed to inside", n, maxNested))
	}
	return guards, nil
}

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

// repositoriesOf lists the repositories that are writable now.
func (r *resolver) repositoriesOf(out *resolved) []string {
	m := mounts{spec: &out.spec}
	found, err := r.scanners.of(out.deny, "trees", scan.Query{Sockets: true, Repositories: true, Name: r.sensitive.matches}).Scan(m.trees()...)
	if err != nil {
		return nil
	}
	return repositoryPaths(found)
}

func repositoryPaths(found *scan.Result) (list []string) {
	for _, f := range found.Found {
		if f.What == scan.Repository || f.What == scan.Bare {
			list = append(list, f.Path)
		}
	}
	return list
}

// created reports the repositories that are there and were not before.
func (r *resolver) created(out *resolved) (reports []RepositoryReport) {
	for _, p := range r.repositoriesOf(out) {
		if slices.Contains(out.repositories, p) {
			continue
		}
		report := RepositoryReport{Path: p}
		gitDir := filepath.Join(p, ".git")
		if layout, err := workspace.GitDirs(p); err == nil && layout.GitDir != "" {
			gitDir = layout.CommonDir
		}
		report.Keys = workspace.CommandKeys(gitDir)
		entries, _ := os.ReadDir(filepath.Join(gitDir, "hooks"))
		for _, e := range entries {
			if info, err := os.Stat(filepath.Join(gitDir, "hooks", e.Name())); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 &&
				filepath.Ext(e.Name()) != ".sample" {
				report.Hooks = append(report.Hooks, e.Name())
			}
		}
		_, err := os.Lstat(filepath.Join(gitDir, "objects/info/alternates"))
		report.Alternates = err == nil
		reports = append(reports, report)
	}
	return reports
}

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
