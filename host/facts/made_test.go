//go:build unix

package facts

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/scan"
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
	if got, want := (&Resolved{View: new(view.View)}).newInstructions(files), []string{at("hooks"), at("both"), at("file"), at("link"), at("fifo")}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What a command made whose host was killed is told with the next one, and what was told is not told again.
func TestUntold(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	m := tr.machine(t)
	m.Caller.Environ = []string{"XDG_STATE_HOME=" + tr.base + "/state"}
	tasks := func(name string) string { return tr.project + "/" + name + "/.vscode" }
	add := func(name string) { writeFile(t, tasks(name)+"/tasks.json", "{}") }
	command := func(make func(), told bool) []string {
		t.Helper()
		out, err := m.resolve(t.Context(), "fast", view.Definition{})
		if err != nil {
			t.Fatal(err)
		}
		m.Begin(out)
		make()
		list := m.Made(out).Instructions
		out.End(true, told)
		return list
	}
	add("old")
	for _, tt := range []struct {
		name string
		make func()
		told bool // else its host was killed
		want []string
	}{
		{"told", func() { add("a") }, true, []string{tasks("a")}},
		{"told, before", func() {}, true, nil},
		{"killed", func() { add("b") }, false, []string{tasks("b")}},
		{"killed once more", func() { add("c") }, false, []string{tasks("b"), tasks("c")}},
		{"after two that were killed", func() {}, true, []string{tasks("b"), tasks("c")}},
		{"after that", func() {}, true, nil},
		{"killed, with a tree moved in", func() {
			if err := os.Rename(tr.project+"/old", tr.project+"/moved"); err != nil {
				t.Fatal(err)
			}
		}, false, []string{tasks("moved")}},
		{"after a tree was moved in", func() {}, true, []string{tasks("moved")}},
	} {
		time.Sleep(3 * tick) // what was made just before a start may count as made since
		if got := command(tt.make, tt.told); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
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
	out := &Resolved{View: new(view.View), before: before{unprotected: []unprotected{{path: tasks, looked: "otherwise"}}}}
	out.searchAgain = func() (*scan.Result, error) { return nil, scan.ErrTooLarge }
	if made := tr.machine(t).Made(out); !slices.Equal(made.Instructions, []string{tasks}) || len(made.Repositories) != 1 || made.Repositories[0].Unclear == "" {
		t.Errorf("%+v", made)
	}
}
