package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sbxhost/sbxhost/host"
)

// plain is the line that a user would write, with no protection of a workspace.
var plain = []string{"bwrap", "--unshare-all", "--die-with-parent", "--new-session",
	"--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "/bin/true"}

// engines are those that are compared with it.
var engines = [...]string{"native", "bwrap", "landlock"}

// accepted is the word that an engine needs which holds less.
var accepted = map[string]host.Isolation{"landlock": host.IsolationBestEffort}

const (
	namePlain     = "plain bwrap"
	sandboxMasked = "masked"
	atOncePlain   = 8
	// masks is how many files the sandbox with masks hides, overlays how many directories
	// the session with overlays makes writable.
	masks    = 200
	overlays = 10
	// preparing is more than it takes to make the next command's sandbox.
	preparing = 20 * time.Millisecond
)

// engineTable tells what a command costs in each engine, with all that is protected by
// default, in a git repository of 1,000 files.
type engineTable struct {
	Rows   []row       `json:"rows"`
	AtOnce []atOnceRow `json:"at_once"`
	First  []firstRow  `json:"first_three"`
}

// firstRow is what the first three commands of a host took, the engine's start included.
type firstRow struct {
	ResidentMiB int     `json:"resident_mib"`
	P50         float64 `json:"p50_ms"`
}

type atOnceRow struct {
	Name      string  `json:"name"`
	PerSecond float64 `json:"per_second"`
	Ratio     float64 `json:"ratio_to_plain"`
}

func measureEngines(ctx context.Context, s *scene, rounds int) (_ *engineTable, err error) {
	repository, err := s.makeRepository()
	if err != nil {
		return nil, err
	}
	for i := range overlays {
		if err := os.MkdirAll(filepath.Join(s.dir, fmt.Sprintf("tool%d", i)), 0o755); err != nil {
			return nil, err
		}
	}
	first := s.plainBwrap(ctx)
	warm, atOnce := []contender{first}, []contender{first}
	var once []contender
	for _, engine := range engines {
		o := libraryOptions(s.dir)
		o.Dir, o.Workspace.Root = repository, repository
		o.Sandboxes = map[string]host.Definition{
			sandboxFast:   {Engine: engine, Isolation: accepted[engine]},
			sandboxMasked: {Engine: engine, Isolation: accepted[engine], DenyPaths: []string{"secrets/*"}},
		}
		hosts := map[string]*host.Host{}
		for name, change := range map[string]func(*host.Options){
			"no session": func(o *host.Options) { o.Session.Once = true },
			"session":    func(*host.Options) {},
			"prepared":   func(o *host.Options) { o.OneShot = false },
			"overlays": func(o *host.Options) {
				for i := range overlays {
					o.Workspace.Readable = append(o.Workspace.Readable, filepath.Join(s.dir, fmt.Sprintf("tool%d", i)))
				}
			},
		} {
			changed := o
			change(&changed)
			h, err := host.New(ctx, changed)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, h.Close()) }()
			hosts[name] = h
		}
		in := func(name, sandbox string) func() error {
			return func() error { return runLibrary(ctx, hosts[name], sandbox) }
		}
		warm = append(warm,
			contender{name: engine + ", no session", run: in("no session", sandboxFast)},
			contender{name: engine + ", session", run: in("session", sandboxFast)},
			contender{name: engine + ", session, 200 masks", run: in("session", sandboxMasked)},
			contender{name: engine + ", session, 10 overlays", run: in("overlays", sandboxFast)})
		if engine != "bwrap" {
			warm = append(warm, contender{name: engine + ", session, prepared", run: in("prepared", sandboxFast), settle: preparing})
		}
		once = append(once, contender{name: engine + ", one-shot", run: func() error {
			cmd := s.sbxhost(ctx, engine, "/bin/true")
			cmd.Dir = repository
			return s.run(cmd)
		}})
		atOnce = append(atOnce, contender{name: engine + ", session", run: in("session", sandboxFast)})
	}
	t := &engineTable{}
	if t.Rows, err = compare(ctx, warm, rounds); err != nil {
		return t, err
	}
	slow, err := compare(ctx, append([]contender{first}, once...), rounds)
	if err != nil {
		return t, err
	}
	t.Rows = append(t.Rows, slow[1:]...)
	for _, c := range atOnce {
		rate, err := commandsPerSecond(atOncePlain, 2*rounds, c.run)
		if err != nil {
			return t, fmt.Errorf("%s: %w", c.name, err)
		}
		t.AtOnce = append(t.AtOnce, atOnceRow{Name: c.name, PerSecond: rate})
		t.AtOnce[len(t.AtOnce)-1].Ratio = ratio(rate, t.AtOnce[0].PerSecond)
	}
	t.First, err = s.measureFirst(ctx, max(1, rounds/4))
	return t, err
}

// plainBwrap is what everything is compared with.
func (s *scene) plainBwrap(ctx context.Context) contender {
	return contender{name: namePlain, run: func() error {
		return s.run(exec.CommandContext(ctx, plain[0], plain[1:]...))
	}}
}

// measureFirst lets hosts of different sizes take turns.
func (s *scene) measureFirst(ctx context.Context, rounds int) ([]firstRow, error) {
	rows := []firstRow{{ResidentMiB: 0}, {ResidentMiB: 512}}
	samples := make([][]float64, len(rows))
	for range rounds {
		for i, row := range rows {
			var took float64
			if err := s.play(ctx, &took, roleFirstHost, s.dir, strconv.Itoa(row.ResidentMiB)); err != nil {
				return nil, err
			}
			samples[i] = append(samples[i], took)
		}
	}
	for i := range rows {
		rows[i].P50 = median(samples[i])
	}
	return rows, nil
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
	for _, dir := range []string{".git/hooks", ".git/info", ".git/objects", ".git/refs/heads"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return "", err
		}
	}
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	time.Sleep(settling)
	return root, nil
}

// settling is how old a configuration of git must be, by a time that nobody can set
// (its ctime), before an answer of git about it is remembered. Those of people's
// repositories are that old.
const settling = 2*time.Second + 100*time.Millisecond
