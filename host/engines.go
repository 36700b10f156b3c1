package host

import (
	"os/exec"

	"github.com/sbxhost/sbxhost/host/launch"
	"github.com/sbxhost/sbxhost/shared"
)

// EngineSource says where an engine that is not built in comes from.
type EngineSource = launch.Source

// EngineProgram is the executable of an engine, by the name that definitions call it.
type EngineProgram = launch.Program

// EngineError says that an engine's process could not be started, or was lost,
// with the end of what it logged.
type EngineError = launch.Error

// Builtins are the engines that this program contains and can serve by
// executing itself. Only ServeBuiltin makes one that is not empty, so that a
// Host never re-executes a program whose main is not prepared for it.
type Builtins = launch.Builtins

// ServeBuiltin must be the first call of a main that links engines. In a
// process that a Host has started to serve one of them, or that an engine has
// started as a sandbox's init, it does that and never returns: it ends the
// process. Everywhere else it returns at once what [Options.Builtins] needs.
func ServeBuiltin(engines ...shared.Engine) Builtins { return launch.ServeBuiltin(engines...) }

// AutoEngines are the engines that "auto" chooses from, the best one first: it
// takes the first that works on this machine. Docker is among them only where
// it was declared, since it needs an image to be chosen.
func (h *Host) AutoEngines() []string { return h.engines.Auto() }

// EngineNames lists the engines this Host knows, sorted.
func (h *Host) EngineNames() []string { return h.engines.Names() }

// SeparateEngines lists those of this project's engines that are programs of
// their own, and where they stand beside this program: "" where they do not.
func (h *Host) SeparateEngines() map[string]string { return h.engines.SeparatePrograms() }

// EngineFile finds the executable of an engine, which it neither reads nor
// starts.
func (h *Host) EngineFile(name string) (launch.File, error) { return h.engines.File(name) }

// EngineCommand gives the command line by which this Host would start an engine's
// process, for tools that start one themselves, with dial.Launch; see
// launch.Engines.Command.
func (h *Host) EngineCommand(name string) (cmd *exec.Cmd, release func(), err error) {
	return h.engines.Command(name)
}
