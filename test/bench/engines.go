package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// measureEngines compares what a command costs in each engine, with all that is protected by
// default, in a git repository of 1,000 files.
func measureEngines(ctx context.Context, s *scene, o options, r *report) {
	repository := filepath.Join(s.dir, "repository")
	tool := func(i int) string { return filepath.Join(s.dir, fmt.Sprint("tool", i)) }
	s.git(ctx, s.dir, "init", "-q", repository)
	plant(repository, 1000, func(i int) (string, string) { return fmt.Sprintf("src/package%d/file%d", i/10, i%10), "" })
	plant(repository, masks, func(i int) (string, string) { return fmt.Sprint("secrets/key", i), "" })
	for i := range overlays {
		check(os.Mkdir(tool(i), 0o755))
	}
	time.Sleep(settling)
	first := s.plainBwrap(ctx)
	warm, atOnce := []contender{first}, []contender{first}
	var once, prepared []contender
	for _, engine := range engines {
		hosts := map[string]*host.Host{}
		for name, change := range map[string]func(*host.Options){
			"no session": func(o *host.Options) { o.Session.OneShot = true },
			"session":    func(*host.Options) {},
			"prepared":   func(o *host.Options) { o.OneShot = false },
			"overlays": func(o *host.Options) {
				for i := range overlays {
					o.Workspace.Readable = append(o.Workspace.Readable, tool(i))
				}
			},
		} {
			hosts[name] = s.host(ctx, repository, func(o *host.Options) {
				o.Sandboxes = map[string]host.Definition{
					sandboxFast:   {Engine: engine, Isolation: accepted[engine]},
					sandboxMasked: {Engine: engine, Isolation: accepted[engine], DenyPaths: []string{"secrets/*"}},
				}
				change(o)
			})
		}
		session := inLibrary(ctx, hosts["session"], sandboxFast)
		warm = append(warm,
			contender{name: engine + ", no session", run: inLibrary(ctx, hosts["no session"], sandboxFast)},
			contender{name: engine + ", session", run: session},
			contender{name: engine + ", session, 200 masks", run: inLibrary(ctx, hosts["session"], sandboxMasked)},
			contender{name: engine + ", session, 10 overlays", run: inLibrary(ctx, hosts["overlays"], sandboxFast)})
		if engine != "bwrap" {
			prepared = append(prepared, contender{name: engine + ", session, prepared", run: inLibrary(ctx, hosts["prepared"], sandboxFast), settle: preparing})
		}
		once = append(once, contender{name: engine + ", one-shot", run: s.oneShot(ctx, engine, repository)})
		atOnce = append(atOnce, contender{name: engine + ", session", run: session})
	}
	r.compare(ctx, "Engines, in a repository of 1,000 files", append(warm, prepared...), o.rounds)
	for _, g := range []struct {
		name, first string
		bound       float64
	}{
		{"native, no session", namePlain, 1.1}, {"native, session", namePlain, .95}, {"native, session, prepared", namePlain, .55},
		{"landlock, session, prepared", namePlain, .75},
		{"native, session, 200 masks", "native, session", 1.15}, {"native, session, 10 overlays", "native, session", 1.05},
	} {
		r.near(g.name, g.first, g.bound)
	}
	// As a program has it that runs one command after another. Of what is above, each finds the caches
	// full of what the others do, and the workspace changed by what they hold there.
	for _, c := range prepared {
		r.compare(ctx, c.name+", with nobody else", []contender{first, c}, o.rounds)
	}
	r.atMost("landlock, prepared, of plain bwrap, nobody else", r.of("landlock, session, prepared", namePlain), .75, "x")
	r.compare(ctx, "Engines, one-shot", append([]contender{first}, once...), o.rounds)
	r.near("native, one-shot", namePlain, 3.5)
	r.line("\n%d at once", atOncePlain)
	rates := map[string]float64{}
	for _, c := range atOnce {
		rate, err := commandsPerSecond(atOncePlain, 2*o.rounds, c.run)
		check(err)
		rates[c.name] = rate
		r.line("  %-45s %9.0f commands/s", c.name, rate)
	}
	r.atLeast("native, 8 at once, commands/s of plain bwrap", rates["native, session"]/rates[namePlain], 1, "x")
}

// plainBwrap is what everything is compared with.
func (s *scene) plainBwrap(ctx context.Context) contender {
	return contender{name: namePlain, run: func() error {
		return s.run(exec.CommandContext(ctx, plain[0], plain[1:]...))
	}}
}

// settling is how old a configuration of git must be, by a time that nobody can set
// (its ctime), before an answer of git about it is remembered. Those of people's
// repositories are that old.
const settling = 2*time.Second + 100*time.Millisecond
