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
	// variables move base, with spaces between them; the first that is set counts. Its value replaces
	// all of base.
	variables string
	// base is "~/..." for the home directory, "$cache/..." and "$data/..." for the user's cache and
	// data directories, an absolute path, or "" if only a variable names it.
	base string
	// within are the shown directories or files of base, with spaces between them; "" means all of it.
	within string
	// narrow says why nothing that is shown is secret.
	narrow string
}

// toolchains is the table. A row must not show a directory in which a tool, or its user, keeps
// credentials: it leaves out what is beside the named directories, and shows a whole directory only
// if its tool needs no login. It cannot know what somebody puts into a directory of programs by
// hand.
var toolchains = [...]toolchain{
	// Languages and their version managers.
	{"rbenv", "RBENV_ROOT", "~/.rbenv", "", "a git checkout and compiled rubies; gem's credentials are in ~/.gem"},
	{"rvm", "rvm_path", "~/.rvm", "bin scripts rubies gems wrappers environments config VERSION RELEASE", "programs and gems; user/ holds settings and stays out"},
	{"gem", "", "~/.gem", "ruby", "installed gems; credentials lies beside it"},
	{"gem", "", "$data/gem", "ruby", "installed gems; credentials lies beside it"},
	{"bundler", "", "~/.bundle", "cache plugin", "downloads; config, with passwords of gem servers, lies beside it"},
	{"nvm", "NVM_DIR", "~/.nvm", "", "a git checkout and downloaded node releases; npm's own tokens are in ~/.npmrc"},
	{"fnm", "FNM_DIR", "$data/fnm", "node-versions aliases", "downloaded node releases"},
	{"fnm", "", "~/.fnm", "node-versions aliases", "downloaded node releases, where older versions put them"},
	{"volta", "VOLTA_HOME", "~/.volta", "bin tools cache layout.v3 layout.v4", "downloaded tools; hooks.json, which can name private registries, lies beside them"},
	{"pyenv", "PYENV_ROOT", "~/.pyenv", "", "a git checkout and compiled pythons"},
	{"uv", "UV_PYTHON_INSTALL_DIR", "$data/uv/python", "", "downloaded pythons; credentials lies beside it"},
	{"uv", "UV_TOOL_DIR", "$data/uv/tools", "", "installed tools; credentials lies beside it"},
	{"uv", "UV_CACHE_DIR", "$cache/uv", "", "downloads and builds; credentials are in its data directory"},
	{"pip", "PIP_CACHE_DIR", "$cache/pip", "", "downloads; pip.conf is in ~/.config or ~/.pip"},
	{"pipx", "PIPX_HOME", "$data/pipx", "venvs shared py", "installed tools"},
	{"pipx", "", "~/.local/pipx", "venvs shared py", "installed tools, where older versions put them"},
	{"python", "", "~/.local", "lib", "libraries of pip install --user; share/ and state/, with credentials and histories, lie beside them"},
	{"uv, pipx, mise", "XDG_BIN_HOME", "~/.local/bin", "", "the directory for a user's own programs"},
	{"mise", "MISE_DATA_DIR", "$data/mise", "installs shims plugins downloads", "downloaded tools; its settings are in ~/.config/mise"},
	{"mise", "MISE_CACHE_DIR", "$cache/mise", "", "lists of versions"},
	{"asdf", "ASDF_DATA_DIR", "~/.asdf", "installs shims plugins downloads bin lib asdf.sh completions defaults VERSION version.txt help.txt", "programs; what else somebody keeps there stays out"},
	{"cargo", "CARGO_HOME", "~/.cargo", "bin registry git env", "programs and downloads; credentials.toml and config.toml lie beside them"},
	{"rustup", "RUSTUP_HOME", "~/.rustup", "", "toolchains and settings of a tool that logs in nowhere"},
	{"go modules", "GOMODCACHE", "", "", "downloaded modules; passwords of module servers are in ~/.netrc"},
	{"go", "GOPATH", "~/go", "pkg/mod pkg/sumdb bin", "downloaded modules and programs; src/, which can hold any project, lies beside them"},
	{"go programs", "GOBIN", "", "", "installed programs"},
	{"go builds", "GOCACHE", "$cache/go-build", "", "compiled packages; go's settings are in ~/.config/go"},

	// Builds on the JVM.
	{"gradle", "GRADLE_USER_HOME", "~/.gradle", "caches wrapper jdks", "downloads; gradle.properties and init.d, with passwords and keys, lie beside them"},
	{"maven", "", "~/.m2", "repository wrapper", "downloads; settings.xml and settings-security.xml lie beside them"},
	{"sdkman", "SDKMAN_DIR", "~/.sdkman", "candidates bin src libexec contrib var", "downloaded SDKs; etc/ with settings lies beside them"},
	{"coursier", "COURSIER_CACHE", "$cache/coursier", "v1 arc jvm", "downloads; credentials.properties is in its configuration directory"},
	{"coursier", "COURSIER_BIN_DIR", "$data/coursier/bin", "", "installed programs"},
	{"ivy", "", "~/.ivy2", "cache local jars", "downloads; .credentials lies beside them"},
	{"sbt", "", "~/.sbt", "boot", "downloads; the directories of versions, with credentials, lie beside them"},

	// JavaScript.
	{"npm", "npm_config_cache NPM_CONFIG_CACHE", "~/.npm", "_cacache _npx", "downloads; _logs, which can show what a command printed, lies beside them, and tokens are in ~/.npmrc"},
	{"npm", "npm_config_prefix NPM_CONFIG_PREFIX", "~/.npm-global", "bin lib", "installed programs; etc/npmrc lies beside them"},
	{"pnpm", "PNPM_HOME", "$data/pnpm", "", "its store and installed programs; rc and auth.ini are in ~/.config/pnpm"},
	{"pnpm", "", "$cache/pnpm", "", "lists of versions"},
	{"yarn", "YARN_CACHE_FOLDER", "$cache/yarn", "", "downloads; tokens are in ~/.yarnrc.yml and ~/.npmrc"},
	{"yarn", "", "~/.yarn", "bin berry/cache berry/index", "downloads and its program"},
	{"bun", "BUN_INSTALL", "~/.bun", "bin install", "downloads and programs"},
	{"deno", "DENO_INSTALL_ROOT", "~/.deno", "bin", "programs"},
	{"deno", "DENO_DIR", "$cache/deno", "deps gen npm remote check_cache_v1 v8_code_cache_v1", "downloads; location_data, what programs have stored, lies beside them"},

	// The system's own.
	{"nix", "", "/nix", "store var/nix/profiles", "the store is readable by everybody"},
	{"nix", "", "~/.nix-profile", "", "a link into the store"},
	{"nix", "", "~/.local/state/nix", "profiles profile", "links into the store"},
	{"homebrew", "HOMEBREW_PREFIX", "/home/linuxbrew/.linuxbrew", homebrew, "programs and libraries; var/, with data of services, and most of etc/ lie beside them"},
	{"homebrew", "", "/opt/homebrew", homebrew, "as above"},
	{"local programs", "", "/usr/local", "", "part of the minimal view as it is"},
	{"add-on programs", "", "/opt", "", "part of the minimal view as it is"},
	{"the system", "", "/usr", "", "part of the minimal view as it is; a row for those whose commands own it"},
}

const homebrew = "bin sbin lib libexec include share opt Cellar Caskroom Frameworks Homebrew Library etc/openssl@3 etc/ca-certificates"

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
	cache := ".cache"
	if p.goos == "darwin" {
		cache = "Library/Caches"
	}
	places := map[string]view.ToolDir{"~": {Path: p.home}, "$cache": p.xdg("XDG_CACHE_HOME", cache), "$data": p.xdg("XDG_DATA_HOME", ".local/share")}
	for i := range toolchains {
		t := &toolchains[i]
		base, variable := t.base, ""
		if place, rest, _ := strings.Cut(base, "/"); place != "" {
			if base, variable = places[place].Path, places[place].Variable; base != "" {
				base = filepath.Join(base, rest)
			}
		}
		for _, name := range strings.Fields(t.variables) {
			value, set := p.lookupEnv(name)
			if !set || value == "" {
				continue
			}
			if name == "GOPATH" {
				value = filepath.SplitList(value)[0]
			}
			base, variable = value, name
			if !p.safe(value, t.within == "") {
				base = ""
				refused = append(refused, name)
			}
			break
		}
		if base == "" {
			continue
		}
		value, _ := p.lookupEnv(variable)
		for _, name := range strings.Split(t.within, " ") { // "" is base itself
			dirs = append(dirs, view.ToolDir{Path: filepath.Join(base, name), Variable: variable, Value: value})
		}
	}
	// A directory comes before those in it: it makes them unnecessary.
	slices.SortStableFunc(dirs, func(a, b view.ToolDir) int { return cmp.Compare(len(a.Path), len(b.Path)) })
	return dirs, refused
}

// xdg is the directory that a variable names, unless that is around the home directory. Without such a
// variable it is one below home.
func (p *toolchainInput) xdg(variable, below string) (dir view.ToolDir) {
	value, _ := p.lookupEnv(variable)
	switch {
	case !filepath.IsAbs(value) || value != filepath.Clean(value):
		if p.home != "" {
			dir.Path = filepath.Join(p.home, below)
		}
	case value != p.home && !paths.Inside(value, p.home):
		dir.Path, dir.Variable = value, variable
	}
	return dir
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
	case view.MayHoldSecrets(p.home, dir):
		return false
	}
	return !whole || !slices.ContainsFunc(slices.Concat(view.SecretDirs[:], mixedDirs[:]), func(place string) bool { return contains(filepath.Join(p.home, place)) })
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
