package cmdengine

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/shared"
)

// Environ makes a [Config.Environ]: "NAME=value" stays, and NAME becomes the engine's own variable,
// if it has that.
func Environ(variables ...string) []string {
	env := []string{}
	for _, v := range variables {
		if strings.Contains(v, "=") {
			env = append(env, v)
		} else if value, ok := os.LookupEnv(v); ok {
			env = append(env, v+"="+value)
		}
	}
	return env
}

// Trial is a [Config.Probe] that runs a command with an environment. The engine is ready if the
// command exits with 0. Otherwise the command's output is the Reason, and fix is the Fix.
func Trial(fix string, env []string, path string, args ...string) func(context.Context) (shared.Probe, error) {
	return func(ctx context.Context) (shared.Probe, error) {
		program, err := hostpath.Installed(path)
		if err != nil {
			return shared.Probe{Reason: fmt.Sprintf("%s: %v", path, err), Fix: fix}, nil
		}
		cmd := program.Command(ctx, args...)
		cmd.Env = append([]string{}, env...) // nil would mean the engine's own
		out, err := cmd.CombinedOutput()
		if ctx.Err() != nil {
			return shared.Probe{}, ctx.Err()
		}
		if err != nil {
			return shared.Probe{Reason: fmt.Sprintf("%s: %v%s", path, err, stderrSuffix(string(out))), Fix: fix}, nil
		}
		return shared.Probe{Ready: true}, nil
	}
}

// Again is a [Config.Diagnose] for a launcher that sometimes fails without the command's fault. It
// starts the command once more if the launcher wrote one of the texts.
func Again(texts ...string) func(string, *syscall.WaitStatus) error {
	return func(stderr string, _ *syscall.WaitStatus) error {
		for _, text := range texts {
			if strings.Contains(stderr, text) {
				return ErrAgain
			}
		}
		return nil
	}
}
