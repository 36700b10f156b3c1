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

// identity is what a probe's result is valid for: this launcher file, on this boot.
type identity struct {
	path         string
	dev, ino     uint64
	mtime, ctime syscall.Timespec
	boot         string
}

// probe asks the launcher for its version, and starts a sandbox like any command's.
func (e *engine) probe(ctx context.Context) (shared.Probe, error) {
	launcher, err := locate("")
	if err != nil {
		return shared.NotReady(err), nil
	}
	version, help := ask(ctx, launcher, "--version"), ask(ctx, launcher, "--help")
	if help != "" && !strings.Contains(help, "--bind-fd ") {
		return shared.Probe{Reason: "this bubblewrap is too old: it cannot bind by descriptor", Fix: fixOld, Unusable: true}, nil
	}
	facts := map[string]string{"bwrap": strings.TrimSpace(launcher + " " + strings.TrimPrefix(version, "bubblewrap "))}
	return e.prober.Probe(ctx, e, cgroup.Look(), identify(launcher), facts, func(_ context.Context, p *shared.Probe) { nsengine.ReportRooted(p) })
}

// identify distinguishes a file from one that replaced it, and a boot from another.
func identify(path string) identity {
	id := identity{path: path, boot: content("/proc/sys/kernel/random/boot_id")}
	var st syscall.Stat_t
	if syscall.Stat(path, &st) == nil {
		id.dev, id.ino, id.mtime, id.ctime = uint64(st.Dev), st.Ino, st.Mtim, st.Ctim
	}
	return id
}

// ask returns the launcher's output.
func ask(ctx context.Context, launcher, arg string) string {
	program, err := hostpath.Installed(launcher)
	if err != nil {
		return ""
	}
	out, err := program.Command(ctx, arg).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func content(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}
