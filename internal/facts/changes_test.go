//go:build unix

package facts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/approvals"
	"github.com/sbxhost/sbxhost/internal/scan"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/workspace"
)

// writeFile writes a file, with the directories above it.
func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// What holds the place of missing paths for another command looks new to one that began
// before it.
func TestInstructionsAreNoHolds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.Mkdir(at("held"), 0o755), os.Mkdir(at("ignored"), 0o755), os.Mkdir(at("hooks"), 0o755), os.Mkdir(at("both"), 0o755),
		os.WriteFile(at("ignored/.gitignore"), nil, 0o644), os.WriteFile(at("hooks/hooks.json"), nil, 0o644),
		os.WriteFile(at("both/.gitignore"), nil, 0o644), os.WriteFile(at("both/settings.json"), nil, 0o644),
		os.WriteFile(at("file"), nil, 0o644), os.Symlink("held", at("link")), unix.Mkfifo(at("fifo"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, name := range []string{"held", "ignored", "gone", "hooks", "both", "file", "link", "fifo"} {
		files = append(files, at(name))
	}
	if got, want := (&Resolution{View: new(view.View)}).newInstructions(&baseline{Instructions: slices.DeleteFunc(files, isStubDir)}, workspace.NewBudget()), []string{at("hooks"), at("both"), at("file"), at("link"), at("fifo")}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The cost of many known paths grows as their number does.
func TestManyInstructions(t *testing.T) {
	t.Parallel()
	const many = 400000
	var files []string
	for i := range many {
		files = append(files, fmt.Sprintf("/none/such/project/d%06d/.envrc", i))
	}
	out := &Resolution{View: new(view.View), baseline: baseline{Instructions: files}}
	began := time.Now()
	made := out.newInstructions(&baseline{Instructions: files}, workspace.NewBudget())
	if took := time.Since(began); len(made) > 0 || took > time.Minute { // less than a second; quadratic, it takes many minutes
		t.Errorf("%d new ones, after %v", len(made), took)
	}
}

// So does the cost of repositories that are not understood. A command makes each by one small file.
func TestManyOddRepositories(t *testing.T) {
	t.Parallel()
	const many = 100000
	odd := map[string]workspace.Acts{}
	var list []string
	for i := range many {
		p := fmt.Sprintf("/none/such/project/r%06d", i)
		list, odd[p] = append(list, p), workspace.Acts{"unclear " + p + " is not understood": ""}
	}
	m := OnlyCaller(Caller{})
	out := &Resolution{View: new(view.View), baseline: baseline{Repositories: odd}}
	began := time.Now()
	reports, more := m.repositoryReports(out, newLookup(t.Context(), m, nil), &baseline{Repositories: odd}, list, nil)
	if took := time.Since(began); len(reports)+len(more) > 0 || took > time.Minute { // less than a second; quadratic, it takes many minutes
		t.Errorf("%d reports, after %v", len(reports), took)
	}
}

// What nobody changes is looked at as often after a command as before, so that the bound of all looks
// ends both at the same place.
func TestLargeInstructionsAreTheSame(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	m := tr.machine(t)
	for i := range 10 { // nearly 1 MiB each, of the 16 that one look may read
		p := fmt.Sprintf("%s/sub/.vscode/%d", tr.project, i)
		writeFile(t, p, "")
		if err := os.Truncate(p, 1<<20-1024); err != nil {
			t.Fatal(err)
		}
	}
	out, err := m.resolve(t.Context(), "fast", view.Definition{})
	if err != nil {
		t.Fatal(err)
	}
	if made := m.Changes(out); len(out.baseline.Unprotected) == 0 || len(made.Instructions) > 0 {
		t.Errorf("%+v\n%+v", out.baseline.Unprotected, made)
	}
}

// It is told of a directory in which git takes another repository, though it acts on nothing there.
func TestAnotherRepositoryIsTold(t *testing.T) {
	t.Parallel()
	base := newRepositories(t)
	top := base + "/super"
	runGit(t, top, "init", "-q", "--bare", "nested")
	m := tree{base: base, project: top}.machine(t)
	out, err := m.resolve(t.Context(), "fast", view.Definition{})
	if err != nil {
		t.Fatal(err)
	}
	told := func(part string) bool {
		return slices.ContainsFunc(m.Changes(out).Repositories, func(r RepositoryReport) bool {
			return r.Path == top+"/nested" && r.Existing && strings.Contains(r.Unclear, part)
		})
	}
	if told("") {
		t.Error("told as it was")
	}
	runGit(t, top+"/nested", "init", "-q", "--template=", "../made")
	if err := os.Rename(top+"/made/.git", top+"/nested/.git"); err != nil {
		t.Fatal(err)
	}
	if !told(`"` + top + `/nested" has a .git, and is a bare repository itself`) {
		t.Errorf("a second one: %+v", m.Changes(out).Repositories)
	}
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if err := os.RemoveAll(top + "/nested/" + name); err != nil {
			t.Fatal(err)
		}
	}
	if !told("uses another repository there: \"") {
		t.Errorf("another one: %+v", m.Changes(out).Repositories)
	}
}

// A report is short, whatever a command has made, and no name forges a line. A clone with another's
// objects is told of, and runs nothing.
func TestReportsAreShort(t *testing.T) {
	t.Parallel()
	base := newRepositories(t)
	top := base + "/super"
	m := tree{base: base, project: top}.machine(t)
	out, err := m.resolve(t.Context(), "fast", view.Definition{})
	if err != nil {
		t.Fatal(err)
	}
	runGit(t, top, "clone", "-q", "--shared", top, "clone")
	runGit(t, top, "init", "-q", "made\nx")
	config := "[filter \"" + strings.Repeat("n", 100_000) + "\"]\nclean = x\n"
	for i := range 500 {
		config += fmt.Sprintf("[alias]\nx%d = !y\n", i)
	}
	writeFile(t, top+"/made\nx/.git/config", config)
	reports := m.Changes(out).Repositories
	if len(reports) != 2 {
		t.Fatalf("%+v", reports)
	}
	if r := reports[0]; len(r.ActsOn) != 1 || r.Executes() || !strings.HasSuffix(r.String(), `would act on "state `+top+`/clone/.git/objects/info/alternates"`) {
		t.Errorf("%+v: %v", r, r.Executes())
	}
	if r := reports[1]; len(r.ActsOn) != 10 || r.More != 491 || !r.Executes() || strings.Contains(r.String(), "\n") || len(r.String()) > 10_000 {
		t.Errorf("%+v", r)
	}
	var several RepositoryReport
	reasons := []string{"a harmless one", "another", strings.Repeat("long ", 1000), "x", "x", "x", "x", "x", "x", "the tenth", "x", "x"}
	if several.fill(nil, reasons); !strings.HasPrefix(several.Unclear, "a harmless one; another; long") || !strings.HasSuffix(several.Unclear, "; the tenth; and 2 more") || len(several.Unclear) > 4200 {
		t.Errorf("%+v", several)
	}
	var hidden RepositoryReport
	if hidden.fill(append(slices.Repeat([]string{"state /m/objects/info/alternates"}, 10), "state /rebase-merge"), nil); !hidden.Executes() {
		t.Errorf("what is not named runs nothing: %+v", hidden)
	}
	writeFile(t, top+"/made\nx/.git/config", "[include]\npath = \"~nobody/"+strings.Repeat("\\n", 10_000)+"\"\n")
	if r := m.Changes(out).Repositories[1]; r.Unclear == "" || strings.Contains(r.String(), "\n") || len(r.String()) > 10_000 {
		t.Errorf("%+v", r)
	}
}

// A link, or a file of jj, in the place of a directory leads a tool to another one.
func TestLeadsAway(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	for _, dir := range []string{".hg", ".jj/repo", "a/.jj/repo"} {
		if err := os.MkdirAll(tr.project+"/"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m := tr.machine(t)
	out, err := m.resolve(t.Context(), "fast", view.Definition{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(tr.project+"/b", 0o755), os.Remove(tr.project+"/.jj/repo"), os.RemoveAll(tr.project+"/a/.jj")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, tr.project+"/.jj/repo", "../b")
	want := []string{tr.project + "/.config", tr.project + "/.jj/repo", tr.project + "/a/.jj"}
	for _, link := range []string{want[0], want[2]} {
		if err := os.Symlink(tr.project+"/b", link); err != nil {
			t.Fatal(err)
		}
	}
	if made := m.Changes(out); !slices.Equal(made.Instructions, want) {
		t.Errorf("%q", made.Instructions)
	}
}

// A command that makes more than is searched does not hide by that what it changed.
func TestChangesAreToldWithoutASearch(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tasks := tr.project + "/tasks.json"
	if err := os.WriteFile(tasks, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	m := tr.machine(t)
	out, err := m.resolve(t.Context(), "fast", view.Definition{})
	if err != nil {
		t.Fatal(err)
	}
	out.baseline.Unprotected = map[unprotectedPath]string{{Path: tasks}: "otherwise"}
	out.searchAgain = func() ([]scan.Found, error) { return nil, errors.New("too many files to search") }
	if made := m.Changes(out); !slices.Equal(made.Instructions, []string{tasks}) || len(made.Repositories) != 1 || made.Repositories[0].Unclear == "" {
		t.Errorf("%+v", made)
	}
}

// A command that makes many directories that cannot be listed does not fill the report with them, nor have any forgotten.
func TestManyUnlistableDirectories(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	m := tr.machine(t)
	out, err := m.resolve(t.Context(), "fast", view.Definition{})
	if err != nil {
		t.Fatal(err)
	}
	out.baseline.Unlistable = []string{tr.project + "/d000"}
	const most = 3 * maxChanges
	out.searchAgain = func() ([]scan.Found, error) {
		var found []scan.Found
		for i := range most {
			found = append(found, scan.Found{Path: fmt.Sprintf("%s/d%03d", tr.project, i), Dir: true, Reason: scan.Unsearched, Pattern: -1})
		}
		return found, nil
	}
	made := m.Changes(out)
	if n := len(made.Repositories); n != maxChanges+1 || made.Repositories[n-1].Path != tr.project {
		t.Errorf("%d places are told of: %+v", n, made.Repositories)
	}
	if told := made.Findings(); len(told) != most || slices.ContainsFunc(told, func(f approvals.Finding) bool { return f.Path == tr.project+"/d000" }) {
		t.Errorf("%d are found: %+v", len(told), told)
	}
}

// What holds a place can be removed from outside, and is a command's to make then.
func TestHeldPlaceIsMade(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	out, err := tr.machine(t).resolve(t.Context(), "fast", view.Definition{})
	if err != nil {
		t.Fatal(err)
	}
	out.Holds = append(out.Holds, view.Hold{Path: tr.project + "/.gitmodules", File: true, Content: "\n"})
	var files, dirs []string
	for _, h := range out.Holds {
		if h.File {
			files = append(files, h.Path)
			writeFile(t, h.Path, h.Content)
		} else {
			dirs = append(dirs, h.Path)
			if err := os.MkdirAll(h.Path, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !slices.Contains(dirs, tr.project+"/.vscode") || len(files) != 1 {
		t.Fatalf("held are %q and %q", dirs, files)
	}
	if made := out.newInstructions(&baseline{Instructions: slices.DeleteFunc(slices.Concat(files, dirs), isStubDir)}, workspace.NewBudget()); made != nil {
		t.Errorf("told of what holds places: %q", made)
	}
	writeFile(t, tr.project+"/.vscode/tasks.json", "{}")
	if err := errors.Join(os.Remove(files[0]), unix.Mkfifo(files[0], 0o644)); err != nil {
		t.Fatal(err)
	}
	want := []string{files[0], tr.project + "/.vscode"}
	if made := out.newInstructions(&baseline{Instructions: slices.DeleteFunc(slices.Concat(files, dirs), isStubDir)}, workspace.NewBudget()); !slices.Equal(made, want) {
		t.Errorf("told %q, want %q", made, want)
	}
}

// A worktree of the workspace's repository is told at any depth, also where git ignores it: that
// repository lists it. So is an entry of the list that names something else.
func TestListedWorktrees(t *testing.T) {
	t.Parallel()
	base := newRepositories(t)
	top := base + "/super"
	m := tree{base: base, project: top}.machine(t)
	runGit(t, top, "config", "extensions.worktreeConfig", "true")
	writeFile(t, top+"/.git/info/exclude", "deep\n")
	writeFile(t, top+"/.git/worktrees/stale/gitdir", top+"/stale/.git\n")
	out, err := m.resolve(t.Context(), "fast", view.Definition{})
	if err != nil {
		t.Fatal(err)
	}
	deep, other := top+"/deep/x/y/z/q/wt", top+"/deep/x/y/z/q/other"
	runGit(t, top, "worktree", "add", "-q", deep, "-b", "deep")
	writeFile(t, top+"/.git/worktrees/wt/config.worktree", "[core]\nfsmonitor = touch ran; false\n")
	runGit(t, top, "init", "-q", other)
	writeFile(t, top+"/.git/worktrees/evil/gitdir", other+"/.git\n")
	writeFile(t, top+"/.git/worktrees/itself/gitdir", top+"/.git\n")
	writeFile(t, top+"/.git/worktrees/gone/gitdir", top+"/gone/.git\n")
	made := m.Changes(out)
	if len(made.LostWorktrees) != 1 || made.LostWorktrees[0] != top+"/gone" {
		t.Errorf("lost: %q", made.LostWorktrees)
	}
	other = fmt.Sprintf("git: %q lists the worktree %q, which is another repository, or none", top+"/.git/worktrees/evil", other)
	tells := func(p string, told func(RepositoryReport) bool) bool {
		return slices.ContainsFunc(made.Repositories, func(r RepositoryReport) bool { return r.Path == p && told(r) })
	}
	if !tells(top, func(r RepositoryReport) bool { return r.Existing && strings.HasPrefix(r.Unclear, other+"; ") }) ||
		!tells(deep, func(r RepositoryReport) bool {
			return !r.Existing && slices.Contains(r.ActsOn, "setting core.fsmonitor")
		}) {
		t.Errorf("%+v", made.Repositories)
	}
}

// Any number of harmless directories leaves space for what lies at the top, in the report and in the list.
func TestTopIsFoundFirst(t *testing.T) {
	t.Parallel()
	made := Changes{Instructions: []string{"/w/a/b/.vscode", "/w/a/.vscode"}, Truncated: []string{"/w/z/.envrc", "/w/.envrc"}, Repositories: []RepositoryReport{{Path: "/w/a/b/c", Unclear: "x"}}}
	var got []string
	for _, f := range made.Findings() {
		got = append(got, f.Path)
	}
	if want := []string{"/w/.envrc", "/w/a/.vscode", "/w/z/.envrc", "/w/a/b/c", "/w/a/b/.vscode"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
