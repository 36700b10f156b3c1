package seatbelt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/engine/gated"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
)

// open refuses a Spec with which no command could start. It works on every system; on a Mac it also
// tries the profile with sandbox-exec, once.
func (e *engine) open(ctx context.Context, spec *shared.Spec) error {
	if _, err := gated.Read(spec); err != nil {
		return err
	}
	if e.platform.goos == "darwin" {
		if err := respell(spec); err != nil {
			return err
		}
	}
	p, err := newPolicy(spec, &shared.Command{})
	if err != nil {
		return err
	}
	profile, err := compile(p, planned(spec))
	if err != nil {
		return err
	}
	if err := outOfReach(p, e.platform.launcher); err != nil {
		return err
	}
	if e.platform.goos != "darwin" {
		return nil
	}
	return e.try(ctx, profile)
}

// outOfReach refuses a launcher that commands could write to.
func outOfReach(p *policy, launcher string) error {
	for _, a := range p.areas {
		if a.writable && paths.Inside(a.path, launcher) {
			return invalid(a.origin, "bind it read-only, or bind less", "makes the launcher %s writable from inside", launcher)
		}
	}
	return nil
}

// try has sandbox-exec load a profile, once: else a failed set-up would look like a failed command.
func (e *engine) try(ctx context.Context, p *profile) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	words := append([]string{"-p", p.text}, p.commandLine()...)
	key := strings.Join(words, "\x00")
	if e.acceptedProfiles[key] {
		return nil
	}
	if err := e.run(ctx, append(words, "--", "/usr/bin/true")); err != nil {
		return err
	}
	e.acceptedProfiles[key] = true
	return nil
}

// run executes sandbox-exec with an empty environment.
func (e *engine) run(ctx context.Context, words []string) error {
	launcher, err := hostpath.Installed(e.platform.launcher)
	if errors.Is(err, fs.ErrNotExist) {
		return &shared.Error{Kind: shared.ErrUnusable, Message: fmt.Sprintf("no %s: %v", e.platform.launcher, err), Hint: "it is part of macOS; this version may have removed it"}
	}
	if err != nil {
		return &shared.Error{Kind: shared.ErrUnavailable, Message: err.Error(), Hint: "it runs outside of every sandbox, so only root may be able to change it"}
	}
	cmd := launcher.Command(ctx, words...)
	cmd.Env = []string{}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err = cmd.Run(); err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return diagnose(stderr.String(), err)
}

func (p *profile) commandLine() (words []string) {
	for n, path := range p.parameters {
		words = append(words, "-D", fmt.Sprintf("P%d=%s", n, path))
	}
	return words
}

// argv is the launcher's whole command line.
func (e *engine) argv(file string, p *profile, command string, args []string) []string {
	words := append([]string{e.platform.launcher, "-f", file}, p.commandLine()...)
	words = append(words, "--", command)
	return append(words, args...)
}

func (e *engine) launch(spec *shared.Spec, cmd *shared.Command) (_ *cmdengine.Launch, err error) {
	if err := e.platform.check(); err != nil {
		return nil, err
	}
	followed := *spec
	followed.Table = withHiddenTargets(spec.Table, leadsTo)
	p, err := newPolicy(&followed, cmd)
	if err != nil {
		return nil, err
	}
	if err := checkLinks(p); err != nil {
		return nil, err
	}
	// macOS may reject a profile that Open did not see, and that must not become the command's exit
	// status.
	if len(followed.Table) > len(spec.Table) || cmd.TTY {
		tried, err := compile(p, planned(spec))
		if err != nil {
			return nil, err
		}
		if err := e.try(context.Background(), tried); err != nil {
			return nil, err
		}
	}
	program, err := p.find(cmd)
	if err != nil {
		return nil, err
	}
	out, err := newOutlet(spec)
	if err != nil {
		return nil, err
	}
	s, err := newOwn(spec)
	ended := func() {
		out.close()
		if s != nil {
			s.dir.Remove()
		}
	}
	defer func() {
		if err != nil {
			ended()
		}
	}()
	if err != nil {
		return nil, err
	}
	s.proxy = out.port
	env, err := environment(p, out.network.Environment(cmd.Env, out.gate), s.places)
	if err != nil {
		return nil, err
	}
	profile, err := compile(p, s.places)
	if err != nil {
		return nil, err
	}
	if err := s.write(profile.text); err != nil {
		return nil, err
	}
	return &cmdengine.Launch{
		Cmd: &exec.Cmd{
			Path: e.platform.launcher,
			Args: e.argv(s.profile, profile, program, cmd.Args[1:]),
			Env:  env,
			Dir:  cmd.Dir,
		},
		Begun: out.hear,
		Ended: ended,
	}, nil
}

// checkLinks refuses a hidden or protected file with another name: rules use paths, and none covers
// the other name.
func checkLinks(p *policy) error {
	for _, c := range slices.Concat(p.hidden, p.kept) {
		info, err := os.Lstat(c.path)
		if err != nil || info.IsDir() {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 {
			return invalid(c.origin, "make it a file of its own: cp FILE COPY && mv COPY FILE",
				"%s is a file with %d names, and only this one would be hidden or protected", c.path, st.Nlink)
		}
	}
	return nil
}
