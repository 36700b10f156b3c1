// Package env computes the exact environment of a command, with the origin of each variable. It is
// pure: the caller's environment is an input, too.
package env

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/internal/view"
)

// builtin are the variables that every command gets from its caller.
var builtin = [...]string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "TZ", "CI", "NODE_ENV", "TMPDIR",
	"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL"}

// injectors make a loader, shell, interpreter, pager, editor or git run code that the variable
// names, or read settings that do so. No glob passes them: only their exact name in `env` or -env
// sets one.
var injectors = [...]string{
	// The C library, its loader and its resolver.
	"LD_*", "DYLD_*", "GCONV_PATH", "GETCONF_DIR", "LOCPATH", "NLSPATH", "GLIBC_TUNABLES",
	"HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS", "RESOLV_*", "TERMCAP", "TERMINFO", "TERMINFO_DIRS", "TERMPATH",
	"OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES",
	// Shells.
	"BASH_ENV", "ENV", "PROMPT_COMMAND", "BASH_FUNC_*", "__BASH_FUNC*", "BASH_LOADABLES_PATH", "SHELLOPTS", "BASHOPTS", "PS4", "IFS", "CDPATH", "FPATH", "ZDOTDIR", "NULLCMD", "READNULLCMD",
	// Interpreters and virtual machines.
	"NODE_OPTIONS", "NODE_PATH", "NODE_REPL_EXTERNAL_MODULE",
	"PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONINSPECT", "PYTHONUSERBASE", "PYTHONBREAKPOINT", "PYTHONEXECUTABLE", "PYTHONPLATLIBDIR", "PYTHONPYCACHEPREFIX", "PYTHONWARNINGS",
	"PERL5OPT", "PERL5LIB", "PERL5DB", "PERL5SHELL", "PERLLIB", "PERLIO_DEBUG", "RUBYOPT", "RUBYLIB", "RUBYSHELL", "LUA_INIT*", "LUA_PATH*", "LUA_CPATH*",
	"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH",
	"DOTNET_STARTUP_HOOKS", "DOTNET_ADDITIONAL_DEPS", "DOTNET_SHARED_STORE", "CORECLR_*", "COR_*",
	"PHPRC", "PHP_INI_SCAN_DIR", "R_PROFILE*", "R_ENVIRON*", "ERL_AFLAGS", "ERL_FLAGS", "ERL_ZFLAGS", "ERL_LIBS", "ELIXIR_ERL_OPTIONS",
	"TCLLIBPATH", "TCL_LIBRARY", "GUILE_LOAD_PATH", "GUILE_LOAD_COMPILED_PATH", "EMACSLOADPATH", "JULIA_LOAD_PATH",
	// Programs that others start unasked.
	"PAGER", "MANPAGER", "SYSTEMD_PAGER", "GH_PAGER", "LESS", "LESSOPEN", "LESSCLOSE", "LESSKEY*", "EDITOR", "VISUAL", "FCEDIT", "BROWSER", "GH_BROWSER", "GH_EDITOR",
	"VIMINIT", "GVIMINIT", "EXINIT", "SUDO_ASKPASS", "SSH_ASKPASS", "RSYNC_RSH", "CVS_RSH", "SVN_SSH", "HGRCPATH", "HGEDITOR", "SVN_EDITOR",
	// Git, which runs much of its configuration.
	"GIT_SSH", "GIT_SSH_*", "GIT_EXTERNAL_DIFF", "GIT_EXEC_PATH", "GIT_CONFIG*", "GIT_PAGER", "GIT_EDITOR", "GIT_MAN_VIEWER",
	"GIT_SEQUENCE_EDITOR", "GIT_ASKPASS", "GIT_PROXY_COMMAND", "GIT_TEMPLATE_DIR", "GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_OBJECT_DIRECTORY",
	"GIT_ALLOW_PROTOCOL",
}

// defaultPath is used if no directory of the caller's PATH is usable.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// OriginBuiltin is the origin of variables that every command gets.
const OriginBuiltin = "built-in list"

const originCommand = "command" // of this command alone

// IsInjector reports whether a variable makes programs run code, or read settings that do so: no
// entry of a definition's EnvPassthrough passes such a variable.
func IsInjector(name string) bool {
	// bash exports functions whose names are paths, and no "*" matches a slash.
	name = strings.ReplaceAll(name, "/", "_")
	return slices.ContainsFunc(injectors[:], func(pattern string) bool {
		ok, _ := path.Match(pattern, name)
		return ok
	})
}

// Var says where a variable of a command's environment comes from.
type Var struct {
	Name   string `json:"name"`
	Origin string `json:"origin"` // "built-in list", `env_passthrough "GO*"`, "env", ...
}

// A Secret is a variable that contains a secret, or the path of one.
type Secret struct{ Name, Value, Origin string }

// Input is everything from which Compute makes a command's environment.
type Input struct {
	Caller      []string          // the caller's environment, "name=value"
	Toolchains  []string          // names of variables with paths of visible toolchains
	Passthrough []string          // the definition's names and globs
	Workspace   map[string]string // the workspace's env
	User        map[string]string // HOME, USER and LOGNAME of another user, "" for unknown; or nil
	Home        string            // HOME, if it is not the caller's directory; or ""
	Sandbox     string            // the name of the sandbox; "" without one
	Credentials []Secret          // of the definition's credential sets
	Withheld    []string          // secrets that no variable may contain
	Definition  map[string]string // the definition's env
	Unset       []string          // names that the definition removes
	Command     []string          // "name=value" or "name" of this command
	// OtherWorktrees says that a repository has worktrees that the command cannot write. The
	// command's own settings then cannot replace those that make git leave these worktrees alone.
	OtherWorktrees bool
	// Root says that the command has root's number and none of root's rights.
	Root bool
	// SharedRepository is that of [view.View.Shared].
	SharedRepository bool
	// GitConfig is a file that git reads instead of the system's configuration; "" for none.
	GitConfig  string
	UsablePath func(dir string) bool // nil accepts all
	UsableTemp func(dir string) bool
	// Temp is the command's TMPDIR instead of the caller's; empty for none.
	Temp string
}

// environment is an environment that Compute is making.
type environment struct {
	caller         map[string]string
	values, origin map[string]string
	// authentication is the origin of git's authentication settings. These are numbered, so another
	// setting could combine a part of them with another key.
	authentication string
}

// Compute returns the exact environment of a command, sorted by name, and the origin of each
// variable. Of two sources for one variable, the later one wins.
func Compute(in Input) (entries []string, origins []Var, err error) {
	e := &environment{caller: map[string]string{}, values: map[string]string{}, origin: map[string]string{}}
	for _, entry := range in.Caller {
		// The last duplicate wins, as in os/exec.
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			e.caller[name] = value
		}
	}
	for _, secret := range in.Credentials {
		if isGitConfig(secret.Name) {
			e.authentication = secret.Origin
		}
	}
	e.pass(builtin[:], OriginBuiltin)
	e.pass(in.Toolchains, view.OriginToolchains)
	for i, pattern := range in.Passthrough {
		if err := e.passGlob(fmt.Sprintf("env_passthrough[%d]", i), pattern); err != nil {
			return nil, nil, err
		}
	}
	for name, value := range in.User {
		if e.set(name, value, "run as the workspace's owner"); value == "" {
			delete(e.values, name) // the command does not get the caller's either
		}
	}
	if in.Home != "" {
		e.set("HOME", in.Home, "private home")
	}
	if in.Sandbox != "" {
		e.set("SBXHOST", "1", "the sandbox")
		e.set("SBXHOST_SANDBOX", in.Sandbox, "the sandbox")
	}
	if in.GitConfig != "" {
		e.set("GIT_CONFIG_SYSTEM", in.GitConfig, "git: your settings")
	}
	if err := e.setAll(in.Workspace, "workspace.env"); err != nil {
		return nil, nil, err
	}
	e.cleanPlaces(&in)
	if in.Root {
		// Root's tar gives each file to its owner in the archive, and fails if it cannot.
		e.set("TAR_OPTIONS", strings.TrimSpace(e.values["TAR_OPTIONS"]+" --no-same-owner"), "commands of root")
	}
	for _, secret := range in.Credentials {
		e.set(secret.Name, secret.Value, secret.Origin)
	}
	if err := e.setAll(in.Definition, "env"); err != nil {
		return nil, nil, err
	}
	for _, name := range in.Unset {
		delete(e.values, name)
	}
	if err := e.setOfCommand(in.Command); err != nil {
		return nil, nil, err
	}
	if in.OtherWorktrees {
		// git gc, and the housekeeping after a commit or a merge, would write to the git
		// directories of worktrees elsewhere. It cannot write them, and would fail; it cannot see
		// them, and would take them for stale.
		for _, key := range [...]string{"gc.reflogExpire", "gc.reflogExpireUnreachable", "gc.worktreePruneExpire"} {
			e.setGit(key, "never", "git: other worktrees are read-only")
		}
	}
	if in.SharedRepository {
		// git would set the set-group-ID bit of directories, which the filter refuses. A directory
		// made in one with the bit has it in any case.
		e.setGit("core.sharedRepository", "false", "git: no command sets a set-group-ID bit")
	}
	if err := e.checkWithheld(in.Withheld); err != nil {
		return nil, nil, err
	}
	return e.list()
}

// checkWithheld refuses a variable by which a command would get a secret that the sandbox withholds.
func (e *environment) checkWithheld(secrets []string) error {
	for _, secret := range secrets {
		for _, name := range slices.Sorted(maps.Keys(e.values)) {
			if value := e.values[name]; secret != "" && (value == secret || len(secret) >= 8 && strings.Contains(value, secret)) {
				attribute := cmp.Or(map[string]string{originCommand: "Env"}[e.origin[name]], view.OriginInject)
				return view.Invalid(attribute, fmt.Sprintf("the variable %s (%s) contains a credential that commands must not get", name, e.origin[name]), "leave the variable out")
			}
		}
	}
	return nil
}

func (e *environment) set(name, value, origin string) {
	e.values[name], e.origin[name] = value, origin
}

// pass passes on variables of the caller.
func (e *environment) pass(names []string, origin string) {
	for _, name := range names {
		if value, ok := e.caller[name]; ok {
			e.set(name, value, origin)
		}
	}
}

// passGlob passes on variables that match an entry of env_passthrough and are not set yet.
func (e *environment) passGlob(attribute, pattern string) error {
	if IsInjector(pattern) {
		return view.Invalid(attribute, fmt.Sprintf("%s makes programs run code that its value names, so it is never passed on", pattern),
			fmt.Sprintf("to set it for the command, give it by name in env, such as env = { %s = \"...\" }", pattern))
	}
	for name, value := range e.caller {
		ok, err := path.Match(pattern, name)
		if err != nil {
			return view.Invalid(attribute, fmt.Sprintf("%q is not a valid pattern", pattern), "close every [ and escape a literal one as \\[")
		}
		if _, have := e.values[name]; ok && !have && !IsInjector(name) && !strings.HasPrefix(name, "SBXHOST_") {
			e.set(name, value, fmt.Sprintf("env_passthrough %q", pattern))
		}
	}
	return nil
}

// check refuses an invalid name, and one of git's authentication.
func (e *environment) check(name, attribute string) error {
	if name == "" || strings.ContainsAny(name, "=\x00") {
		return view.Invalid(attribute, fmt.Sprintf("%q is not a variable name", name), "")
	}
	if e.authentication != "" && isGitConfig(name) {
		return view.Invalid(attribute, fmt.Sprintf("%s is what %s authenticates git by", name, e.authentication), "set one of the two")
	}
	return nil
}

// setAll sets the variables of an attribute.
func (e *environment) setAll(values map[string]string, attribute string) error {
	for name, value := range values {
		if err := e.check(name, attribute); err != nil {
			return err
		}
		e.set(name, value, attribute)
	}
	return nil
}

func (e *environment) setOfCommand(entries []string) error {
	for i, entry := range entries {
		name, value, given := strings.Cut(entry, "=")
		if err := e.check(name, fmt.Sprintf("Env[%d]", i)); err != nil {
			return err
		}
		if !given {
			if value, given = e.caller[name]; !given {
				continue // as docker run -e NAME: nothing to pass on
			}
		}
		e.set(name, value, originCommand)
	}
	return nil
}

// cleanPlaces removes entries of PATH and TMPDIR that are useless inside.
func (e *environment) cleanPlaces(in *Input) {
	if dirs, ok := e.values["PATH"]; ok || in.UsablePath != nil {
		e.set("PATH", cleanPath(dirs, in.UsablePath), OriginBuiltin)
	}
	if in.Temp != "" {
		e.set("TMPDIR", in.Temp, view.OriginTemp)
	} else if dir, ok := e.values["TMPDIR"]; ok && in.UsableTemp != nil && !in.UsableTemp(dir) {
		delete(e.values, "TMPDIR") // it does not exist inside, and programs use it unchecked
	}
}

// setGit adds to git's numbered configuration.
func (e *environment) setGit(key, value, origin string) {
	n, err := strconv.Atoi(cmp.Or(e.values["GIT_CONFIG_COUNT"], "0"))
	if err != nil || n < 0 {
		return
	}
	e.set(fmt.Sprintf("GIT_CONFIG_KEY_%d", n), key, origin)
	e.set(fmt.Sprintf("GIT_CONFIG_VALUE_%d", n), value, origin)
	e.set("GIT_CONFIG_COUNT", strconv.Itoa(n+1), origin)
}

func (e *environment) list() (entries []string, origins []Var, err error) {
	for _, name := range slices.Sorted(maps.Keys(e.values)) {
		if strings.IndexByte(e.values[name], 0) >= 0 {
			return nil, nil, view.Invalid("env "+name, "its value contains a NUL byte", "")
		}
		entries = append(entries, name+"="+e.values[name])
		origins = append(origins, Var{name, e.origin[name]})
	}
	return entries, origins, nil
}

// isGitConfig reports whether a variable is part of git's numbered configuration.
func isGitConfig(name string) bool {
	return strings.HasPrefix(name, "GIT_CONFIG_") && name != "GIT_CONFIG_GLOBAL" && name != "GIT_CONFIG_SYSTEM" && name != "GIT_CONFIG_NOSYSTEM"
}

// cleanPath keeps the absolute elements that usable accepts. By a relative one, or by one that
// commands can write to, a command could plant programs for the next.
func cleanPath(dirs string, usable func(string) bool) string {
	var kept []string
	for _, dir := range strings.Split(dirs, ":") {
		if path.IsAbs(dir) && !slices.ContainsFunc(kept, func(have string) bool { return path.Clean(have) == path.Clean(dir) }) && (usable == nil || usable(dir)) {
			kept = append(kept, dir)
		}
	}
	if len(kept) == 0 {
		return defaultPath
	}
	return strings.Join(kept, ":")
}
