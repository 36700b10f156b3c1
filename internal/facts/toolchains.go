//go:build unix

package facts

import (
	"cmp"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/view"
)

// toolchain is a row of the table: where one tool keeps programs, libraries and downloads.
type toolchain struct {
	tool string
	// variables move base; the first that is set counts. Its value replaces all of base.
	variables []string
	// base is "~/..." for the home directory, "$cache/..." and "$data/..." for the user's cache and
	// data directories, an absolute path, or "" if only a variable names it.
	base string
	// within are the shown directories or files of base; nil means all of it.
	within []string
	// narrow says why nothing that is shown is secret.
	narrow string
}

// toolchains is the table. A row must not show a directory in which a tool, or its user, keeps
// credentials: it leaves out what is beside the named directories, and shows a whole directory only
// if its tool needs no login. It cannot know what somebody puts into a directory of programs by
// hand.
var toolchains = [...]toolchain{
	// Languages and their version managers.
	{"rbenv", []string{"RBENV_ROOT"}, "~/.rbenv", nil, "a git checkout and compiled rubies; gem's credentials are in ~/.gem"},
	{"rvm", []string{"rvm_path"}, "~/.rvm", []string{"bin", "scripts", "rubies", "gems", "wrappers", "environments", "config", "VERSION", "RELEASE"}, "programs and gems; user/ holds settings and stays out"},
	{"gem", nil, "~/.gem", []string{"ruby"}, "installed gems; credentials lies beside it"},
	{"gem", nil, "$data/gem", []string{"ruby"}, "installed gems; credentials lies beside it"},
	{"bundler", nil, "~/.bundle", []string{"cache", "plugin"}, "downloads; config, with passwords of gem servers, lies beside it"},
	{"nvm", []string{"NVM_DIR"}, "~/.nvm", nil, "a git checkout and downloaded node releases; npm's own tokens are in ~/.npmrc"},
	{"fnm", []string{"FNM_DIR"}, "$data/fnm", []string{"node-versions", "aliases"}, "downloaded node releases"},
	{"fnm", nil, "~/.fnm", []string{"node-versions", "aliases"}, "downloaded node releases, where older versions put them"},
	{"volta", []string{"VOLTA_HOME"}, "~/.volta", []string{"bin", "tools", "cache", "layout.v3", "layout.v4"}, "downloaded tools; hooks.json, which can name private registries, lies beside them"},
	{"pyenv", []string{"PYENV_ROOT"}, "~/.pyenv", nil, "a git checkout and compiled pythons"},
	{"uv", []string{"UV_PYTHON_INSTALL_DIR"}, "$data/uv/python", nil, "downloaded pythons; credentials lies beside it"},
	{"uv", []string{"UV_TOOL_DIR"}, "$data/uv/tools", nil, "installed tools; credentials lies beside it"},
	{"uv", []string{"UV_CACHE_DIR"}, "$cache/uv", nil, "downloads and builds; credentials are in its data directory"},
	{"pip", []string{"PIP_CACHE_DIR"}, "$cache/pip", nil, "downloads; pip.conf is in ~/.config or ~/.pip"},
	{"pipx", []string{"PIPX_HOME"}, "$data/pipx", []string{"venvs", "shared", "py"}, "installed tools"},
	{"pipx", nil, "~/.local/pipx", []string{"venvs", "shared", "py"}, "installed tools, where older versions put them"},
	{"python", nil, "~/.local", []string{"lib"}, "libraries of pip install --user; share/ and state/, with credentials and histories, lie beside them"},
	{"uv, pipx, mise", []string{"XDG_BIN_HOME"}, "~/.local/bin", nil, "the directory for a user's own programs"},
	{"mise", []string{"MISE_DATA_DIR"}, "$data/mise", []string{"installs", "shims", "plugins", "downloads"}, "downloaded tools; its settings are in ~/.config/mise"},
	{"mise", []string{"MISE_CACHE_DIR"}, "$cache/mise", nil, "lists of versions"},
	{"asdf", []string{"ASDF_DATA_DIR"}, "~/.asdf", []string{"installs", "shims", "plugins", "downloads", "bin", "lib", "asdf.sh", "completions", "defaults", "VERSION", "version.txt", "help.txt"}, "programs; what else somebody keeps there stays out"},
	{"cargo", []string{"CARGO_HOME"}, "~/.cargo", []string{"bin", "registry", "git", "env"}, "programs and downloads; credentials.toml and config.toml lie beside them"},
	{"rustup", []string{"RUSTUP_HOME"}, "~/.rustup", nil, "toolchains and settings of a tool that logs in nowhere"},
	{"go modules", []string{"GOMODCACHE"}, "", nil, "downloaded modules; passwords of module servers are in ~/.netrc"},
	{"go", []string{"GOPATH"}, "~/go", []string{"pkg/mod", "pkg/sumdb", "bin"}, "downloaded modules and programs; src/, which can hold any project, lies beside them"},
	{"go programs", []string{"GOBIN"}, "", nil, "installed programs"},
	{"go builds", []string{"GOCACHE"}, "$cache/go-build", nil, "compiled packages; go's settings are in ~/.config/go"},

	// Builds on the JVM.
	{"gradle", []string{"GRADLE_USER_HOME"}, "~/.gradle", []string{"caches", "wrapper", "jdks"}, "downloads; gradle.properties and init.d, with passwords and keys, lie beside them"},
	{"maven", nil, "~/.m2", []string{"repository", "wrapper"}, "downloads; settings.xml and settings-security.xml lie beside them"},
	{"sdkman", []string{"SDKMAN_DIR"}, "~/.sdkman", []string{"candidates", "bin", "src", "libexec", "contrib", "var"}, "downloaded SDKs; etc/ with settings lies beside them"},
	{"coursier", []string{"COURSIER_CACHE"}, "$cache/coursier", []string{"v1", "arc", "jvm"}, "downloads; credentials.properties is in its configuration directory"},
	{"coursier", []string{"COURSIER_BIN_DIR"}, "$data/coursier/bin", nil, "installed programs"},
	{"ivy", nil, "~/.ivy2", []string{"cache", "local", "jars"}, "downloads; .credentials lies beside them"},
	{"sbt", nil, "~/.sbt", []string{"boot"}, "downloads; the directories of versions, with credentials, lie beside them"},

	// JavaScript.
	{"npm", []string{"npm_config_cache", "NPM_CONFIG_CACHE"}, "~/.npm", []string{"_cacache", "_npx"}, "downloads; _logs, which can show what a command printed, lies beside them, and tokens are in ~/.npmrc"},
	{"npm", []string{"npm_config_prefix", "NPM_CONFIG_PREFIX"}, "~/.npm-global", []string{"bin", "lib"}, "installed programs; etc/npmrc lies beside them"},
	{"pnpm", []string{"PNPM_HOME"}, "$data/pnpm", nil, "its store and installed programs; rc and auth.ini are in ~/.config/pnpm"},
	{"pnpm", nil, "$cache/pnpm", nil, "lists of versions"},
	{"yarn", []string{"YARN_CACHE_FOLDER"}, "$cache/yarn", nil, "downloads; tokens are in ~/.yarnrc.yml and ~/.npmrc"},
	{"yarn", nil, "~/.yarn", []string{"bin", "berry/cache", "berry/index"}, "downloads and its program"},
	{"bun", []string{"BUN_INSTALL"}, "~/.bun", []string{"bin", "install"}, "downloads and programs"},
	{"deno", []string{"DENO_INSTALL_ROOT"}, "~/.deno", []string{"bin"}, "programs"},
	{"deno", []string{"DENO_DIR"}, "$cache/deno", []string{"deps", "gen", "npm", "remote", "check_cache_v1", "v8_code_cache_v1"}, "downloads; location_data, what programs have stored, lies beside them"},

	// The system's own.
	{"nix", nil, "/nix", []string{"store", "var/nix/profiles"}, "the store is readable by everybody"},
	{"nix", nil, "~/.nix-profile", nil, "a link into the store"},
	{"nix", nil, "~/.local/state/nix", []string{"profiles", "profile"}, "links into the store"},
	{"homebrew", []string{"HOMEBREW_PREFIX"}, "/home/linuxbrew/.linuxbrew", homebrew, "programs and libraries; var/, with data of services, and most of etc/ lie beside them"},
	{"homebrew", nil, "/opt/homebrew", homebrew, "as above"},
	{"local programs", nil, "/usr/local", nil, "part of the minimal view as it is"},
	{"add-on programs", nil, "/opt", nil, "part of the minimal view as it is"},
	{"the system", nil, "/usr", nil, "part of the minimal view as it is; a row for those whose commands own it"},
}

var homebrew = []string{"bin", "sbin", "lib", "libexec", "include", "share", "opt", "Cellar", "Caskroom", "Frameworks", "Homebrew", "Library", "etc/openssl@3", "etc/ca-certificates"}

// mixedDirs are directories, below home, in which people and tools keep credentials and other
// files. A variable may not name one as a whole.
var mixedDirs = [...]string{
	".config", ".local/share", ".local/state", ".cache", ".gradle", ".m2", ".cargo", ".gem", ".bundle", ".ivy2", ".npm",
	"Library", "Library/Keychains", "Library/Application Support", "Library/Caches",
}

// toolchainInput is the input for the paths of toolchains.
type toolchainInput struct {
	goos, home string
	lookupEnv  func(string) (string, bool)
}

// list returns the possible paths of the table's rows, and the refused variables. It reads only its
// receiver.
func (p *toolchainInput) list() (dirs []view.ToolDir, refused []string) {
	for i := range toolchains {
		t := &toolchains[i]
		base, variable := p.expand(t.base)
		for _, name := range t.variables {
			value, set := p.lookupEnv(name)
			if !set || value == "" {
				continue
			}
			if name == "GOPATH" {
				value = filepath.SplitList(value)[0]
			}
			base, variable = value, name
			if !p.safe(value, t.within == nil) {
				base = ""
				refused = append(refused, name)
			}
			break
		}
		if base == "" {
			continue
		}
		value, _ := p.lookupEnv(variable)
		if t.within == nil {
			dirs = append(dirs, view.ToolDir{Path: base, Variable: variable, Value: value})
		}
		for _, name := range t.within {
			dirs = append(dirs, view.ToolDir{Path: filepath.Join(base, name), Variable: variable, Value: value})
		}
	}
	// A directory comes before those in it: it makes them unnecessary.
	slices.SortStableFunc(dirs, func(a, b view.ToolDir) int { return cmp.Compare(len(a.Path), len(b.Path)) })
	return dirs, refused
}

// expand returns a row's base as a path, or "".
func (p *toolchainInput) expand(base string) (dir, variable string) {
	place, rest, _ := strings.Cut(base, "/")
	switch place {
	case "~":
	case "$cache", "$data":
		name, below := "XDG_CACHE_HOME", ".cache"
		if place == "$data" {
			name, below = "XDG_DATA_HOME", ".local/share"
		}
		if value, set := p.lookupEnv(name); set && filepath.IsAbs(value) && value == filepath.Clean(value) {
			if value != p.home && !paths.Inside(value, p.home) {
				return filepath.Join(value, rest), name
			}
			return "", ""
		}
		if p.goos == "darwin" && place == "$cache" {
			below = "Library/Caches"
		}
		rest = filepath.Join(below, rest)
	default:
		return base, ""
	}
	if p.home == "" {
		return "", ""
	}
	return filepath.Join(p.home, rest), ""
}

// safe reports whether a variable's directory may be shown, as a whole or in part: it is not the system's,
// does not contain the home directory, and holds no credentials.
func (p *toolchainInput) safe(dir string, whole bool) bool {
	contains := func(place string) bool { return paths.Inside(dir, place) }
	switch {
	case !filepath.IsAbs(dir), filepath.Clean(dir) != dir, strings.IndexByte(dir, 0) >= 0, paths.InsideAny([]string{"/etc", "/proc", "/sys", "/dev", "/run"}, dir),
		slices.ContainsFunc([]string{"/boot", "/root", "/var", "/tmp", "/home", "/usr", "/Users", "/System", "/Library", "/private"}, contains):
		return false
	case p.home == "":
		return true
	case contains(p.home):
		return false
	}
	for _, place := range view.SecretDirs {
		place = filepath.Join(p.home, place)
		if whole && paths.Inside(dir, place) || paths.Inside(place, dir) {
			return false
		}
	}
	return !whole || !slices.ContainsFunc(mixedDirs[:], func(place string) bool { return paths.Inside(dir, filepath.Join(p.home, place)) })
}

// findToolchains returns the possible paths of toolchains of this caller's commands, and the refused
// variables.
func findToolchains(c *Caller, owner *Owner) (dirs []view.ToolDir, refused []string) {
	places := toolchainInput{goos: runtime.GOOS, home: c.Home, lookupEnv: c.LookupEnv}
	if owner != nil {
		// The variables belong to another user.
		places.home, places.lookupEnv = owner.Home, (&Caller{}).LookupEnv
	}
	return places.list()
}
