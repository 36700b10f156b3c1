package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// commandRules are about what is run, and with what.
func commandRules() []rule {
	byProbe := func(custom func(context.Context, *scene) (Status, string)) func(context.Context, *bench) error {
		return func(ctx context.Context, b *bench) error {
			if status, detail := custom(ctx, b.scene); status != Held {
				return errors.New(detail)
			}
			return nil
		}
	}
	return []rule{
		{id: "command.01", title: "the environment is exact", run: byProbe(exactEnvironment(ownTemp, "PATH=/usr/bin:/bin", "A=1", "EMPTY=", "B=x\ny"))},
		{id: "command.02", title: "arguments are exact", run: byProbe(exactArguments)},
		{id: "command.03", title: "the working directory", run: func(ctx context.Context, b *bench) error {
			cmd := b.sh("pwd")
			cmd.Dir = b.scene.path("ws/sub")
			r, err := b.once(ctx, cmd, nil)
			if err == nil && r.stdout != cmd.Dir+"\n" {
				err = fmt.Errorf("it is %q", r.stdout)
			}
			return err
		}},
		{id: "command.04", title: "a script, with its parameters", run: func(ctx context.Context, b *bench) error {
			cmd := b.sh("")
			cmd.Script, cmd.Args = `printf '%s|' "$@"; exit 3`, []string{"one", "two words", ""}
			r, err := b.once(ctx, cmd, nil)
			if err != nil {
				return err
			}
			if r.stdout != "one|two words||" {
				return fmt.Errorf("it writes %q; stderr: %s", r.stdout, tail([]byte(r.stderr)))
			}
			return r.exits(shared.ExitStatus{Code: 3})
		}},
		{id: "command.05", title: "a script of 200 KB", run: func(ctx context.Context, b *bench) error {
			cmd := b.sh("")
			cmd.Script, cmd.Args = "x='"+strings.Repeat("y", 200_000)+"'\necho ${#x}\nexit 4\n", nil
			r, err := b.once(ctx, cmd, nil)
			if err != nil {
				return err
			}
			if r.stdout != "200000\n" {
				return fmt.Errorf("it writes %s; stderr: %s", tail([]byte(r.stdout)), tail([]byte(r.stderr)))
			}
			return r.exits(shared.ExitStatus{Code: 4})
		}},
		{id: "command.06", title: "a command is looked up in the PATH of its environment", run: lookedUp},
		{id: "command.07", title: "a command that is not there is ErrNotFound", run: func(ctx context.Context, b *bench) error {
			return b.failing(ctx, shared.ErrNotFound, map[string][]string{
				"a name": {"sbxhost-no-such-command"}, "a path": {"/no/such/command"}, "an empty name": {""},
			})
		}},
		{id: "command.08", title: "a command that cannot be executed is ErrNotExecutable", run: func(ctx context.Context, b *bench) error {
			if err := b.scene.write("ws/plain", "text"); err != nil {
				return err
			}
			return b.failing(ctx, shared.ErrNotExecutable, map[string][]string{
				"a directory": {b.scene.ws}, "a file without the permission": {b.scene.path("ws/plain")},
			})
		}},
		{id: "command.09", title: "126 and 127 are codes like others when a command exits with them", run: func(ctx context.Context, b *bench) error {
			sandbox, err := b.open(ctx)
			if err != nil {
				return err
			}
			for _, code := range []int{124, 125, 126, 127, 128, 143} {
				r, err := b.run(ctx, sandbox, b.sh(fmt.Sprintf("exit %d", code)), nil)
				if err == nil {
					err = r.exits(shared.ExitStatus{Code: code})
				}
				if err != nil {
					return err
				}
			}
			return nil
		}},
		{id: "command.10", title: "Plan runs nothing, and shows no value of a variable", run: plans},
		{id: "command.11", title: "commands of one sandbox do not see each other's processes", isolating: true, run: apart},
		{id: "command.12", title: "a command has its three files and no other, and finds signals neither blocked nor ignored", run: plainProcess},
	}
}

// failing wants Start to fail for each command line.
func (b *bench) failing(ctx context.Context, kind error, commands map[string][]string) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for name, args := range commands {
		cmd := b.sh("")
		cmd.Args = args
		p, err := sandbox.Start(ctx, cmd, shared.Stdio{})
		if err == nil {
			r, _ := p.Wait(ctx)
			errs = append(errs, fmt.Errorf("%s was started, and ended with %v", name, r.Status))
			continue
		}
		errs = append(errs, wantKind(name, err, kind))
	}
	return errors.Join(errs...)
}

func lookedUp(ctx context.Context, b *bench) error {
	const name = "sbxhost-probe-tool"
	if err := b.scene.write("ws/sub/"+name, "#!/bin/sh\necho $0 $1\n"); err != nil {
		return err
	}
	if err := os.Chmod(b.scene.path("ws/sub", name), 0o755); err != nil {
		return err
	}
	cmd := b.sh("")
	cmd.Args, cmd.Env = []string{name, "one"}, []string{"PATH=/usr/bin:" + b.scene.path("ws/sub")}
	r, err := b.once(ctx, cmd, nil)
	if want := b.scene.path("ws/sub", name) + " one\n"; err == nil && r.stdout != want {
		err = fmt.Errorf("it writes %q and not %q", r.stdout, want)
	}
	return err
}

func plans(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	cmd := b.sh("touch made")
	cmd.Env = append(cmd.Env, "TOKEN="+b.scene.canary)
	plan, err := sandbox.Plan(ctx, cmd)
	if err != nil {
		return err
	}
	if len(plan.Argv) == 0 {
		return errors.New("there is no command line")
	}
	if strings.Contains(strings.Join(plan.Argv, " "), b.scene.canary) {
		return errors.New("the command line has the value of a variable")
	}
	if _, err := os.Stat(b.scene.path("ws/made")); err == nil {
		return errors.New("it ran the command")
	}
	// The control: Start does.
	if _, err := b.run(ctx, sandbox, cmd, nil); err != nil {
		return err
	}
	_, err = os.Stat(b.scene.path("ws/made"))
	return err
}

func apart(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	p, _, err := b.started(ctx, sandbox, b.sh("echo; exec sleep 61.25"), nil)
	if err != nil {
		return err
	}
	r, err := b.run(ctx, sandbox, b.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '"), nil)
	if err == nil && strings.Contains(r.stdout, "sleep 61.25") {
		err = errors.New("one sees the other")
	}
	_, waitErr := p.Wait(endNow(ctx, p))
	return errors.Join(err, waitErr)
}

// plainProcess is for engines that do not isolate, too, which have no probes.
func plainProcess(ctx context.Context, b *bench) error {
	if runtime.GOOS != "linux" {
		return &absentError{"there is no /proc here"}
	}
	r, err := b.once(ctx, b.command("descriptors"), nil)
	if err != nil {
		return err
	}
	if v := readVerdict([]byte(r.stdout), r.Result); v.Kind != verdictDenied {
		return fmt.Errorf("more descriptors are open: %s", v.Detail)
	}
	if status, detail := signalState(ctx, b.scene); status == Failed {
		return errors.New(detail)
	}
	return nil
}
