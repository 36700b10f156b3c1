package launch

import (
	"context"
	"fmt"
	"os"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/shared"
)

// builtinEnvVar names the engine that a re-executed program must serve.
const builtinEnvVar = "SBXHOST_BUILTIN"

// Builtins are the engines in this program, which serves them by executing itself. Only
// ServeBuiltin makes a value that is not empty, so that a Host never re-executes a program whose
// main is not prepared for it.
type Builtins struct {
	engines map[string]shared.Engine
}

// ServeBuiltin must be the first call in the main of a program that links engines. In a process
// that a Host started as an engine, or that an engine started as a sandbox's init, it serves and
// then exits; it never returns. In every other process it returns at once with the value for a
// Host's Options.Builtins.
func ServeBuiltin(engines ...shared.Engine) Builtins {
	sandboxinit.Hook()
	b := Builtins{engines: make(map[string]shared.Engine, len(engines))}
	for _, e := range engines {
		info, err := e.Info(context.Background())
		if err != nil {
			fmt.Fprintf(os.Stderr, "built-in engine: %v\n", err)
			os.Exit(1)
		}
		b.engines[info.Name] = e
	}
	name := os.Getenv(builtinEnvVar)
	if name == "" {
		return b
	}
	engine, ok := b.engines[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "this program was started to serve the engine %q, which it does not contain\n", name)
		os.Exit(1)
	}
	os.Unsetenv(builtinEnvVar)
	shared.Serve(engine)
	panic("unreachable")
}

// ForgottenServeBuiltin returns an error in a program that a Host started as an engine, but that
// did not call ServeBuiltin. Otherwise it would be a fork bomb.
func ForgottenServeBuiltin() error {
	if name := os.Getenv(builtinEnvVar); name != "" {
		return fmt.Errorf("this process was started to serve the engine %q: its main must call host.ServeBuiltin before anything else", name)
	}
	return nil
}
