package host

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/shared"
)

// builtinEnv are the variables that every command gets from its caller.
var builtinEnv = [...]string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "TZ", "CI", "NODE_ENV", "TMPDIR"}

// injectors make a loader, shell, interpreter, pager, editor or git run code that
// the variable names, or read settings that do. No glob passes them; only their
// exact name in `env` or -env sets one.
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
	// Programs that others start without being asked.
	"PAGER", "MANPAGER", "SYSTEMD_PAGER", "GH_PAGER", "LESS", "LESSOPEN", "LESSCLOSE", "LESSKEY*", "EDITOR", "VISUAL", "FCEDIT", "BROWSER", "GH_BROWSER", "GH_EDITOR",
	"VIMINIT", "GVIMINIT", "EXINIT", "SUDO_ASKPASS", "SSH_ASKPASS", "RSYNC_RSH", "CVS_RSH", "SVN_SSH", "HGRCPATH", "HGEDITOR", "SVN_EDITOR",
	// Git, which runs much of its configuration.
	"GIT_SSH", "GIT_SSH_*", "GIT_EXTERNAL_DIFF", "GIT_EXEC_PATH", "GIT_CONFIG*", "GIT_PAGER", "GIT_EDITOR", "GIT_MAN_VIEWER",
	"GIT_SEQUENCE_EDITOR", "GIT_ASKPASS", "GIT_PROXY_COMMAND", "GIT_TEMPLATE_DIR", "GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_OBJECT_DIRECTORY",
	"GIT_ALLOW_PROTOCOL",
}

// defaultPath serves where nothing of the caller's PATH may be used.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// IsInjector reports whether a variable makes programs run code, or read settings
// that do: no entry of Definition.EnvPassthrough passes one on.
func IsInjector(name string) bool {
	// bash exports functions whose names are paths, and no "*" matches a slash.
	name = strings.ReplaceAll(name, "/", "_")
	for _, pattern := range injectors {
		if ok, _ := path.Match(pattern, name); ok {
			return true
		}
	}
	return false
}

// EnvVar says where a variable of a command's environment comes from.
type EnvVar struct {
	Name   string
	Origin string // "built-in list", `env_passthrough "GO*"`, "env", ...
}

// envInput is everything that a command's environment is computed from.
type envInput struct {
	caller      []string          // the caller's environment, "name=value"
	toolchains  []string          // names of variables that lead to toolchains shown
	passthrough []string          // the definition's names and globs
	identity    []string          // the git identity in force at the workspace's root, "name=value"
	workspace   map[string]string // the workspace's env, which takes the identity's place
	user        map[string]string // HOME, USER and LOGNAME of another user, "" where unknown; or nil
	traceParent string            // the trace that the command is part of, or ""
	traceState  string            // and what comes with it
	credentials []credentialVar   // of the definition's credential sets
	definition  map[string]string // the definition's env
	command     []string          // "name=value" or "name" of this command
	settings    []string          // of git, "key=value", which no other setting of the command's replaces
	usablePath  func(dir string) bool
	usableTemp  func(dir string) bool
}

// computeEnv gives the exact environment of a command, sorted by name, and the
// origin of each variable.
func computeEnv(in envInput) (env []string, origins []EnvVar, err error) {
	caller := make(map[string]string, len(in.caller))
	for _, entry := range in.caller {
		// The last duplicate wins, as in os/exec.
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			caller[name] = value
		}
	}
	values := map[string]string{}
	origin := map[string]string{}
	set := func(name, value, from string) { values[name], origin[name] = value, from }

	for _, name := range builtinEnv {
		if value, ok := caller[name]; ok {
			set(name, value, "built-in list")
		}
	}
	for _, name := range in.toolchains {
		if value, ok := caller[name]; ok {
			set(name, value, view.OriginToolchains)
		}
	}
	// What git authenticates by is numbered, so that a part that somebody else
	// has set could pair the rest of it with another key.
	authentication := ""
	for _, v := range in.credentials {
		if isGitConfig(v.name) {
			authentication = v.origin
		}
	}
	checkName := func(name, attribute string) error {
		if err := checkEnvName(name); err != nil {
			return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: attribute, Message: err.Error()}
		}
		if authentication != "" && isGitConfig(name) {
			return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: attribute,
				Message: fmt.Sprintf("%s is what %s authenticates git by", name, authentication), Hint: "set one of the two"}
		}
		return nil
	}

	for i, pattern := range in.passthrough {
		attribute := fmt.Sprintf("env_passthrough[%d]", i)
		if IsInjector(pattern) {
			return nil, nil, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: attribute,
				Message: fmt.Sprintf("%s makes programs run code that its value names, so it is never passed on", pattern),
				Hint:    fmt.Sprintf("to set it for the command, give it by name in env, such as env = { %s = \"...\" }", pattern)}
		}
		for name, value := range caller {
			ok, err := path.Match(pattern, name)
			if err != nil {
				return nil, nil, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: attribute,
					Message: fmt.Sprintf("%q is not a valid pattern", pattern), Hint: "close every [ and escape a literal one as \\["}
			}
			if ok && !IsInjector(name) && !strings.HasPrefix(name, "SBXHOST_") {
				if _, have := values[name]; !have {
					set(name, value, fmt.Sprintf("env_passthrough %q", pattern))
				}
			}
		}
	}
	for name, value := range in.user {
		if set(name, value, "run as the workspace's owner"); value == "" {
			delete(values, name) // nor is it the caller's
		}
	}
	for _, entry := range in.identity {
		name, value, _ := strings.Cut(entry, "=")
		set(name, value, "git identity")
	}
	for name, value := range in.workspace {
		if err := checkName(name, "workspace.env"); err != nil {
			return nil, nil, err
		}
		set(name, value, "workspace.env")
	}
	if dirs, ok := values["PATH"]; ok || in.usablePath != nil {
		set("PATH", cleanPath(dirs, in.usablePath), "built-in list")
	}
	if dir, ok := values["TMPDIR"]; ok && in.usableTemp != nil && !in.usableTemp(dir) {
		delete(values, "TMPDIR") // it does not exist inside, and programs trust it blindly
	}
	if in.traceParent != "" {
		delete(values, "TRACESTATE") // of the caller's, which belongs to another span
		set("TRACEPARENT", in.traceParent, "telemetry")
		if in.traceState != "" {
			set("TRACESTATE", in.traceState, "telemetry")
		}
	}
	for _, v := range in.credentials {
		set(v.name, v.value, v.origin)
	}
	for name, value := range in.definition {
		if err := checkName(name, "env"); err != nil {
			return nil, nil, err
		}
		set(name, value, "env")
	}
	for i, entry := range in.command {
		name, value, given := strings.Cut(entry, "=")
		if err := checkName(name, fmt.Sprintf("Env[%d]", i)); err != nil {
			return nil, nil, err
		}
		if !given {
			if value, given = caller[name]; !given {
				continue // as docker run -e NAME: nothing to pass on
			}
		}
		set(name, value, "command")
	}
	if n, err := strconv.Atoi(cmp.Or(values["GIT_CONFIG_COUNT"], "0")); err == nil && n >= 0 {
		for i, setting := range in.settings {
			key, value, _ := strings.Cut(setting, "=")
			set(fmt.Sprintf("GIT_CONFIG_KEY_%d", n+i), key, settingsOrigin)
			set(fmt.Sprintf("GIT_CONFIG_VALUE_%d", n+i), value, settingsOrigin)
			set("GIT_CONFIG_COUNT", strconv.Itoa(n+i+1), settingsOrigin)
		}
	}

	for _, name := range slices.Sorted(maps.Keys(values)) {
		if strings.IndexByte(values[name], 0) >= 0 {
			return nil, nil, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "env " + name, Message: "its value contains a NUL byte"}
		}
		env = append(env, name+"="+values[name])
		origins = append(origins, EnvVar{name, origin[name]})
	}
	return env, origins, nil
}

// gcSettings keep git gc, and the housekeeping after a commit or a merge, from
// writing to the git directories of worktrees elsewhere: those cannot be written,
// so that it would fail, and cannot be seen, so that it would take them for stale.
var gcSettings = [...]string{"gc.reflogExpire=never", "gc.reflogExpireUnreachable=never", "gc.worktreePruneExpire=never"}

const settingsOrigin = "git: other worktrees are read-only"

// isGitConfig reports whether a variable is configuration of git's, which it
// counts and numbers.
func isGitConfig(name string) bool {
	return strings.HasPrefix(name, "GIT_CONFIG_") && name != "GIT_CONFIG_GLOBAL" && name != "GIT_CONFIG_SYSTEM" && name != "GIT_CONFIG_NOSYSTEM"
}

func checkEnvName(name string) error {
	if name == "" || strings.ContainsAny(name, "=\x00") {
		return fmt.Errorf("%q is not a variable name", name)
	}
	return nil
}

// cleanPath keeps the absolute elements that usable accepts: a relative one, or
// one that a command can write to, would let it plant programs for the next.
func cleanPath(dirs string, usable func(string) bool) string {
	var kept []string
	for _, dir := range filepath.SplitList(dirs) {
		if filepath.IsAbs(dir) && (usable == nil || usable(dir)) && !slices.ContainsFunc(kept, func(have string) bool { return filepath.Clean(have) == filepath.Clean(dir) }) {
			kept = append(kept, dir)
		}
	}
	if len(kept) == 0 {
		return defaultPath
	}
	return strings.Join(kept, string(filepath.ListSeparator))
}
