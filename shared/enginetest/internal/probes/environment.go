package probes

import (
	"errors"
	"os/exec"
	"path/filepath"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// environmentProbes are about variables that reach a command, or the launcher, without the
// definition.
func environmentProbes() []Probe {
	return []Probe{
		{ID: "env.04", Title: "variables of the engine's process", Unmodelled: decidedByEngine,
			act: "variables HOME USER LOGNAME SHELL TERM LANG GOCACHE HOSTNAME SSH_AUTH_SOCK XDG_RUNTIME_DIR", Maybe: true},
		{ID: "env.05", Title: "a variable for the loader acts on the launcher, outside", Only: OnlyLinux, custom: loaderVariables},
		{ID: "env.08", Title: "a command that is in the PATH of the host alone", Features: shared.Features{shared.FeatureFilesystemMinimal}, Unmodelled: decidedByEngine, custom: hostPath},
		{ID: "env.11", Title: "files that a shell of the host's user reads its settings from", Features: shared.Features{shared.FeatureFilesystemMinimal}, Only: OnlyLinux,
			act: "read /etc/bash.bashrc.local /root/.bashrc /root/.profile", Maybe: true},
	}
}

// loaderVariables makes the dynamic loader write a file for every program that is started with
// these variables. Outside, no program may be started with them.
func loaderVariables(s *scene.Scene) {
	trace := s.Path("outside/loader")
	env := []string{"LD_DEBUG=libs", "LD_DEBUG_OUTPUT=" + trace}
	t := s.NewTrial()
	t.Command.Env = append(t.Command.Env, env...)
	t.Command.Args = []string{"/bin/sh", "-c", ":"} // it has a loader, which the kit's program may lack
	s.Must(s.Attempt(t).Refused)
	traced := func() bool {
		found, _ := filepath.Glob(trace + ".*")
		return len(found) > 0
	}
	s.Expect(!traced(), scene.Leaked, "the launcher's loader obeyed it, outside of the sandbox")
	cmd := exec.CommandContext(s.Ctx, "/bin/sh", "-c", ":")
	cmd.Env = env
	err := cmd.Run()
	s.Needs(err == nil, "no /bin/sh here: %v", err)
	s.Needs(traced(), "the loader of this machine has no LD_DEBUG")
}

// hostPath looks a command up by a PATH that names a directory of the host.
func hostPath(s *scene.Scene) {
	const name = "sbxhost-probe-tool"
	s.Must(s.Write("outside/"+name, "#!/bin/sh\nexit 0\n"))
	t := s.NewTrial()
	t.Command.Env = []string{"PATH=" + s.Outside + ":/usr/bin:/bin"}
	t.Command.Args = []string{name}
	o := s.Attempt(t)
	s.Expect(o.Refused != nil || !o.Status.Success(), scene.Leaked, "it was found")
	s.Demand(errors.Is(o.Refused, shared.ErrNotFound), "not refused as a command that is not there: %v, %v", o.Refused, o.Status)
	t.Show(s.Outside, shared.ReadOnly)
	o = s.Attempt(t)
	s.Expect(o.Refused == nil && o.Status.Success(), scene.ControlFailed, "where it is shown: %v, %v", o.Refused, o.Status)
}
