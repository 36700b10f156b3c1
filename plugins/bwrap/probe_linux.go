package bwrap

import (
	"context"
	"os"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/engine/cgroup"
	"github.com/sbxhost/sbxhost/internal/engine/nsengine"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/shared"
)

// identity is what a probe's result holds for: this launcher file, on this boot.
type identity struct {
	path         string
	dev, ino     uint64
	mtime, ctime syscall.Timespec
	boot         string
}

// probe asks the launcher what it is, and starts a sandbox as any command would have it.
func (e *engine) probe(ctx context.Context) (shared.Probe, error) {
	launcher, err := locate("")
	if err != nil {
		return nsengine.NotReady(err), nil
	}
	facts := launcherFacts(ctx, launcher)
	return e.prober.Probe(ctx, e, cgroup.Look(), identify(launcher), facts, func(_ context.Context, p *shared.Probe) {
		nsengine.TellRooted(p)
		if facts["bwrap --bind-fd"] == "no" {
			p.Degraded = append(p.Degraded, "sources of binds are handed over by path: one that is swapped between check and mount is found out, and no command runs")
		}
	})
}

func identify(path string) identity {
	id := fileIdentity(path)
	id.boot = content("/proc/sys/kernel/random/boot_id")
	return id
}

// fileIdentity tells a file from one that has taken its place.
func fileIdentity(path string) identity {
	id := identity{path: path}
	var st syscall.Stat_t
	if syscall.Stat(path, &st) == nil {
		id.dev, id.ino, id.mtime, id.ctime = uint64(st.Dev), st.Ino, st.Mtim, st.Ctim
	}
	return id
}

// launcherFacts asks the launcher what it is. Its options tell what a later
// version of this engine could use.
func launcherFacts(ctx context.Context, launcher string) map[string]string {
	ask := func(arg string) string {
		program, err := hostpath.Installed(launcher)
		if err != nil {
			return ""
		}
		out, err := program.Command(ctx, arg).Output()
		if err != nil {
			return ""
		}
		return string(out)
	}
	version := strings.TrimPrefix(strings.TrimSpace(ask("--version")), "bubblewrap ")
	facts := map[string]string{"bwrap": strings.TrimSpace(launcher + " " + version)}
	help := ask("--help")
	for _, option := range [...]string{"--bind-fd", "--size"} {
		have := "no"
		if strings.Contains(help, option+" ") {
			have = "yes"
		}
		facts["bwrap "+option] = have
	}
	return facts
}

func content(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}
