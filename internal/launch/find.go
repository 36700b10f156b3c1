package launch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/wire"
	"github.com/sbxhost/sbxhost/shared"
)

// programPrefix begins the name of an engine's executable.
const programPrefix = "sbxhost-engine-"

// Ours are the engines of this project, which installs them in one directory.
var Ours = []string{"native", "bwrap", "landlock", "seatbelt", "docker", "noop"}

// Separate are those that are separate programs and no part of sbxhost.
var Separate = []string{"docker"}

// PartialEngine is the engine among [Engines.Auto] that does not enforce all of the isolation.
const PartialEngine = "landlock"

// logEnv sets the log level of every engine.
const logEnv = "SBXHOST_LOG"

// ourEnv are the variables of the caller's environment for our engines' processes. Commands see
// none of them.
func ourEnv(name string) []string {
	env := []string{logEnv, "TMPDIR", "XDG_RUNTIME_DIR"}
	if name == "docker" {
		env = append(env, "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "HOME", "XDG_CACHE_HOME")
	}
	return env
}

// IsAuto reports whether a definition leaves the choice of the engine open.
func IsAuto(engine string) bool { return engine == "" || engine == "auto" }

// Name returns an engine's name for a definition's name of it.
func Name(engine string) string {
	if engine == "bubblewrap" {
		return "bwrap"
	}
	return engine
}

// Resolve is [Name]; for "auto" it is the first engine to try.
func (s *Engines) Resolve(engine string) string {
	if IsAuto(engine) {
		return s.Auto()[0]
	}
	return Name(engine)
}

// Auto are the engines that "auto" chooses from: the first that works on this machine. Docker is
// among them only if it was declared, because it needs an image. Landlock comes last: it enforces
// less, which a definition must accept.
func (s *Engines) Auto() []string {
	platform := []string{"native", "bwrap"}
	if runtime.GOOS == "darwin" {
		platform = []string{"seatbelt"}
	}
	engines := slices.DeleteFunc(slices.Clone(platform), func(name string) bool { return !s.knows(name) })
	if len(engines) == 0 {
		engines = platform[:1] // the error names it
	}
	_, declared := s.o.Declared["docker"]
	if declared || s.Injected("docker") {
		engines = append(engines, "docker")
	}
	if runtime.GOOS == "linux" && s.knows(PartialEngine) {
		engines = append(engines, PartialEngine)
	}
	return engines
}

// AutoOptions are the options of "auto": those that each possible engine knows, with or without
// [PartialEngine]. Docker has none, because it takes a config block for its own; nor has an engine
// that must run to report its options.
func (s *Engines) AutoOptions(lesser bool) (schema shared.OptionSchema) {
	for i, name := range s.Auto() {
		if name == PartialEngine && !lesser {
			continue
		}
		info, ok := s.Info(name)
		switch own := info.Options.Attributes; {
		case !ok || name == "docker":
			return shared.OptionSchema{}
		case i == 0:
			schema.Attributes = slices.Clone(own)
		default:
			schema.Attributes = slices.DeleteFunc(schema.Attributes, func(a shared.OptionAttribute) bool {
				return !slices.ContainsFunc(own, func(b shared.OptionAttribute) bool { return a.Name == b.Name && a.Type == b.Type })
			})
		}
	}
	return schema
}

// Options returns the options of an engine, or of "auto", as AutoOptions, if that needs no start.
func (s *Engines) Options(name string, lesser bool) (shared.OptionSchema, bool) {
	if IsAuto(name) {
		return s.AutoOptions(lesser), true
	}
	info, ok := s.Info(name)
	return info.Options, ok
}

// Info returns an engine's description of itself if that needs no start.
func (s *Engines) Info(name string) (shared.Info, bool) {
	engine, ok := s.o.Inject[name]
	if _, declared := s.o.Declared[name]; !ok && !declared {
		engine, ok = s.o.Builtins.engines[Name(name)]
	}
	if !ok {
		return shared.Info{}, false
	}
	info, err := engine.Info(context.Background())
	return info, err == nil
}

// knows reports whether an engine is a part of this program, or was given to it. With a directory of
// engines it reports true, because the directory may have the engine.
func (s *Engines) knows(name string) bool {
	_, builtin := s.o.Builtins.engines[name]
	_, declared := s.o.Declared[name]
	return builtin || declared || s.Injected(name) || s.o.Dir != ""
}

// Injected reports whether an engine runs in this process.
func (s *Engines) Injected(name string) bool {
	_, ok := s.o.Inject[name]
	return ok
}

// Known reports whether there is an engine with that name, here or on another platform.
func (s *Engines) Known(name string) bool {
	return slices.Contains(Ours, name) || slices.Contains(s.Names(), name) || s.o.Dir != "" && s.beside(name) != ""
}

// beside is the path of an engine's program in the directory of those that were installed with this
// one; "" if it is not there.
func (s *Engines) beside(name string) string {
	if dir := s.dir(); dir != "" {
		path := filepath.Join(dir, programPrefix+name)
		if _, err := os.Lstat(path); err == nil {
			return path
		}
	}
	return ""
}

// Names lists the known engines, sorted.
func (s *Engines) Names() []string {
	names := slices.Concat(slices.Collect(maps.Keys(s.o.Builtins.engines)), slices.Collect(maps.Keys(s.o.Declared)), slices.Collect(maps.Keys(s.o.Inject)))
	for name, path := range s.SeparatePrograms() {
		if path != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// SeparatePrograms lists this project's engines that are programs beside this one, with their paths;
// "" for those of Separate that are missing.
func (s *Engines) SeparatePrograms() map[string]string {
	found := make(map[string]string, len(Ours))
	for _, name := range Ours {
		if path := s.beside(name); path != "" || slices.Contains(Separate, name) {
			found[name] = path
		}
	}
	return found
}

// Command returns the command line for an engine's process, for tools that start one themselves
// with dial.Launch. It checks the program as for a start. Call release afterwards: with a pinned
// checksum, it executes the verified file.
func (s *Engines) Command(name string) (cmd *exec.Cmd, release func(), err error) {
	p, err := s.find(s.Resolve(name))
	if err != nil {
		return nil, nil, err
	}
	cmd, release, err = p.command()
	if err != nil {
		return nil, nil, err
	}
	cmd.Dir = "/"
	return cmd, release, nil
}

// Programs are the executables that may run outside of sandboxes: this program, the engines and
// inits beside it and in Options.Dir, and the declared engines.
func (s *Engines) Programs() []string {
	var list []string
	add := func(path string) {
		if resolved, err := filepath.EvalSymlinks(path); err == nil && !slices.Contains(list, resolved) {
			list = append(list, resolved)
		}
	}
	dirs := []string{s.o.Dir}
	if exe, err := os.Executable(); err == nil {
		add(exe)
		dirs = append(dirs, filepath.Dir(exe))
	}
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		for _, name := range append(s.Names(), "bwrap") {
			add(filepath.Join(dir, programPrefix+name))
		}
		add(filepath.Join(dir, "sbxhost-init"))
		add(filepath.Join(dir, "sbxhost"))
	}
	for _, path := range s.Sources() {
		add(path)
	}
	return list
}

// Sources are the paths of the declared engines' executables, as declared, by name.
func (s *Engines) Sources() map[string]string {
	sources := make(map[string]string, len(s.o.Declared))
	for name := range s.o.Declared {
		sources[name] = s.sourcePath(name)
	}
	return sources
}

func (s *Engines) sourcePath(name string) string {
	source := s.o.Declared[name].Source
	if rest, ok := strings.CutPrefix(source, "~/"); ok && s.o.Home != "" {
		return filepath.Join(s.o.Home, rest)
	}
	return source
}

// find returns the executable of an engine: the declared one, the lean one beside this program, or
// this program itself.
func (s *Engines) find(name string) (program, error) {
	if declared, ok := s.o.Declared[name]; ok {
		return s.declared(name, declared)
	}
	_, builtin := s.o.Builtins.engines[name]
	env := s.pickEnv(ourEnv(name))
	if s.o.OneShot {
		env = append(env, wire.OnceEnv+"=1")
	}
	// Use only this project's engines in this program's directory: the directory is usually in PATH,
	// and nobody installed its other programs as engines.
	if dir := s.dir(); dir != "" && paths.IsName(name) && (builtin || slices.Contains(Ours, name) || s.o.Dir != "") {
		beside := filepath.Join(dir, programPrefix+name)
		file, err := hostpath.Installed(beside)
		if err == nil {
			return program{name: name, file: file, source: file.Path(), env: env}, nil
		}
		// An unsafe file there is an error, and never skipped.
		if !errors.Is(err, fs.ErrNotExist) {
			return program{}, &Error{Engine: name, Source: beside, Err: err}
		}
	}
	if builtin {
		self, err := hostpath.Self()
		if err != nil {
			return program{}, &Error{Engine: name, Source: "built in", Err: err}
		}
		return program{name: name, file: self, source: "built in", env: append(env, builtinEnvVar+"="+name)}, nil
	}
	if slices.Contains(Separate, name) {
		return program{}, &shared.Error{Kind: shared.ErrUnusable, Attribute: "engine",
			Message: fmt.Sprintf("the engine %q is a separate program, and is not installed", name),
			Hint: fmt.Sprintf("put sbxhost-engine-%[1]s into %[2]s: "+
				"CGO_ENABLED=0 go install github.com/sbxhost/sbxhost/plugins/%[1]s/sbxhost-engine-%[1]s@latest", name, hostpath.Quote(s.dir()))}
	}
	return program{}, &shared.Error{Kind: shared.ErrUnusable, Attribute: "engine",
		Message: fmt.Sprintf("no engine %q is known here", name),
		Hint:    "known are " + strings.Join(s.Names(), ", ") + "; declare others in Options.Engines or in engine blocks"}
}

func (s *Engines) declared(name string, declared Source) (program, error) {
	path := s.sourcePath(name)
	if !filepath.IsAbs(path) {
		return program{}, invalid("engine."+name+".source", fmt.Sprintf("%q is not absolute", path), "an engine is never looked up in PATH or the workspace")
	}
	file, err := hostpath.CheckProgram(path, s.o.WritableDir)
	if err != nil {
		return program{}, &Error{Engine: name, Source: path, Err: err}
	}
	p := program{name: name, file: file, source: path, declared: true, env: s.pickEnv(append(slices.Clip(declared.Env), logEnv))}
	if len(declared.SHA256) > 0 {
		if p.sha256 = strings.ToLower(declared.SHA256[Platform()]); p.sha256 == "" {
			return p, invalid("engine."+name+".sha256", "no checksum is pinned for "+Platform(),
				"check the engine and add the checksum of its program, or remove sha256")
		}
	}
	return p, nil
}

// dir is the directory of engines that were installed with this program; "" if it is unknown.
func (s *Engines) dir() string {
	if s.o.Dir != "" {
		return s.o.Dir
	}
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	return filepath.Dir(exe)
}

// pickEnv returns those of the caller's variables that have one of some names.
func (s *Engines) pickEnv(names []string) []string {
	var picked []string
	for _, name := range names {
		if value, ok := s.o.LookupEnv(name); ok {
			picked = append(picked, name+"="+value)
		}
	}
	return picked
}

// Unconfined reports whether a built-in or injected engine with that name does not isolate.
func (s *Engines) Unconfined(name string) bool {
	info, ok := s.Info(name)
	return ok && info.Features.Has(shared.FeatureUnconfined)
}
