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

// toolchain is a row of the table: where one tool keeps programs, libraries and downloads. A comment names
// the tool, and says why nothing that is shown is secret.
type toolchain struct {
	// variables move base, with spaces between them; the first that is set counts. Its value replaces
	// all of base.
	variables string
	// base is "~/..." for the home directory, "$cache/..." and "$data/..." for the user's cache and
	// data directories, an absolute path, or "" if only a variable names it.
	base string
	// within are the shown directories or files of base, with spaces between them; "" means all of it.
	within string
}

// toolchains is the table. A row must not show a directory in which a tool, or its user, keeps
// credentials: it leaves out what is beside the named directories, and shows a whole directory only
// if its tool needs no login. It cannot know what somebody puts into a directory of programs by
// hand.
var toolchains = [...]toolchain{
	// Languages and their version managers.
	{"RBENV_ROOT", "~/.rbenv", ""}, // rbenv: a git checkout and compiled rubies; gem's credentials are in ~/.gem
	{"rvm_path", "~/.rvm", "bin scripts rubies gems wrappers environments config VERSION RELEASE"}, // rvm: programs and gems; user/ holds settings and stays out
	{"", "~/.gem", "ruby"},                                              // gem: installed gems; credentials lies beside it
	{"", "$data/gem", "ruby"},                                           // gem: installed gems; credentials lies beside it
	{"", "~/.bundle", "cache plugin"},                                   // bundler: downloads; config, with passwords of gem servers, lies beside it
	{"NVM_DIR", "~/.nvm", ""},                                           // nvm: a git checkout and downloaded node releases; npm's own tokens are in ~/.npmrc
	{"FNM_DIR", "$data/fnm", "node-versions aliases"},                   // fnm: downloaded node releases
	{"", "~/.fnm", "node-versions aliases"},                             // fnm: downloaded node releases, where older versions put them
	{"VOLTA_HOME", "~/.volta", "bin tools cache layout.v3 layout.v4"},   // volta: downloaded tools; hooks.json, which can name private registries, lies beside them
	{"PYENV_ROOT", "~/.pyenv", ""},                                      // pyenv: a git checkout and compiled pythons
	{"UV_PYTHON_INSTALL_DIR", "$data/uv/python", ""},                    // uv: downloaded pythons; credentials lies beside it
	{"UV_TOOL_DIR", "$data/uv/tools", ""},                               // uv: installed tools; credentials lies beside it
	{"UV_CACHE_DIR", "$cache/uv", ""},                                   // uv: downloads and builds; credentials are in its data directory
	{"PIP_CACHE_DIR", "$cache/pip", ""},                                 // pip: downloads; pip.conf is in ~/.config or ~/.pip
	{"PIPX_HOME", "$data/pipx", "venvs shared py"},                      // pipx: installed tools
	{"", "~/.local/pipx", "venvs shared py"},                            // pipx: installed tools, where older versions put them
	{"", "~/.local", "lib"},                                             // python: libraries of pip install --user; share/ and state/, with credentials and histories, lie beside them
	{"XDG_BIN_HOME", "~/.local/bin", ""},                                // uv, pipx, mise: the directory for a user's own programs
	{"MISE_DATA_DIR", "$data/mise", "installs shims plugins downloads"}, // mise: downloaded tools; its settings are in ~/.config/mise
	{"MISE_CACHE_DIR", "$cache/mise", ""},                               // mise: lists of versions
	{"ASDF_DATA_DIR", "~/.asdf", "installs shims plugins downloads bin lib asdf.sh completions defaults VERSION version.txt help.txt"}, // asdf: programs; what else somebody keeps there stays out
	{"CARGO_HOME", "~/.cargo", "bin registry git env"}, // cargo: programs and downloads; credentials.toml and config.toml lie beside them
	{"RUSTUP_HOME", "~/.rustup", ""},                   // rustup: toolchains and settings of a tool that logs in nowhere
	{"GOMODCACHE", "", ""},                             // go modules: downloaded modules; passwords of module servers are in ~/.netrc
	{"GOPATH", "~/go", "pkg/mod pkg/sumdb bin"},        // go: downloaded modules and programs; src/, which can hold any project, lies beside them
	{"GOBIN", "", ""},                                  // go programs: installed programs
	{"GOCACHE", "$cache/go-build", ""},                 // go builds: compiled packages; go's settings are in ~/.config/go

	// Builds on the JVM.
	{"GRADLE_USER_HOME", "~/.gradle", "caches wrapper jdks"},              // gradle: downloads; gradle.properties and init.d, with passwords and keys, lie beside them
	{"", "~/.m2", "repository wrapper"},                                   // maven: downloads; settings.xml and settings-security.xml lie beside them
	{"SDKMAN_DIR", "~/.sdkman", "candidates bin src libexec contrib var"}, // sdkman: downloaded SDKs; etc/ with settings lies beside them
	{"COURSIER_CACHE", "$cache/coursier", "v1 arc jvm"},                   // coursier: downloads; credentials.properties is in its configuration directory
	{"COURSIER_BIN_DIR", "$data/coursier/bin", ""},                        // coursier: installed programs
	{"", "~/.ivy2", "cache local jars"},                                   // ivy: downloads; .credentials lies beside them
	{"", "~/.sbt", "boot"},                                                // sbt: downloads; the directories of versions, with credentials, lie beside them

	// JavaScript.
	{"npm_config_cache NPM_CONFIG_CACHE", "~/.npm", "_cacache _npx"},                   // npm: downloads; _logs, which can show what a command printed, lies beside them, and tokens are in ~/.npmrc
	{"npm_config_prefix NPM_CONFIG_PREFIX", "~/.npm-global", "bin lib"},                // npm: installed programs; etc/npmrc lies beside them
	{"PNPM_HOME", "$data/pnpm", ""},                                                    // pnpm: its store and installed programs; rc and auth.ini are in ~/.config/pnpm
	{"", "$cache/pnpm", ""},                                                            // pnpm: lists of versions
	{"YARN_CACHE_FOLDER", "$cache/yarn", ""},                                           // yarn: downloads; tokens are in ~/.yarnrc.yml and ~/.npmrc
	{"", "~/.yarn", "bin berry/cache berry/index"},                                     // yarn: downloads and its program
	{"BUN_INSTALL", "~/.bun", "bin install"},                                           // bun: downloads and programs
	{"DENO_INSTALL_ROOT", "~/.deno", "bin"},                                            // deno: programs
	{"DENO_DIR", "$cache/deno", "deps gen npm remote check_cache_v1 v8_code_cache_v1"}, // deno: downloads; location_data, what programs have stored, lies beside them

	// The system's own.
	{"", "/nix", "store var/nix/profiles"},                      // nix: the store is readable by everybody
	{"", "~/.nix-profile", ""},                                  // nix: a link into the store
	{"", "~/.local/state/nix", "profiles profile"},              // nix: links into the store
	{"HOMEBREW_PREFIX", "/home/linuxbrew/.linuxbrew", homebrew}, // homebrew: programs and libraries; var/, with data of services, and most of etc/ lie beside them
	{"", "/opt/homebrew", homebrew},                             // homebrew: as above
	{"", "/usr/local", ""},                                      // local programs: part of the minimal view as it is
	{"", "/opt", ""},                                            // add-on programs: part of the minimal view as it is
	{"", "/usr", ""},                                            // the system: part of the minimal view as it is; a row for those whose commands own it
}

const homebrew = "bin sbin lib libexec include share opt Cellar Caskroom Frameworks Homebrew Library etc/openssl@3 etc/ca-certificates"

// mixedDirs are directories, below home, in which people and tools keep credentials and other
// files. A variable may not name one as a whole.
var mixedDirs = [...]string{
	".config", ".local/share", ".local/state", ".cache", ".gradle", ".m2", ".cargo", ".gem", ".bundle", ".ivy2", ".npm",
	"Library", "Library/Keychains", "Library/Application Support", "Library/Caches",
}

// toolchains returns the possible paths of the table's rows for this caller's commands, and the refused
// variables.
func (c *Caller) toolchains(goos string) (dirs []view.ToolDir, refused []string) {
	cache := ".cache"
	if goos == "darwin" {
		cache = "Library/Caches"
	}
	places := map[string]view.ToolDir{"~": {Path: c.Home}, "$cache": c.xdg("XDG_CACHE_HOME", cache), "$data": c.xdg("XDG_DATA_HOME", ".local/share")}
	for _, t := range toolchains {
		base, variable := t.base, ""
		if place, rest, _ := strings.Cut(base, "/"); place != "" {
			if base, variable = places[place].Path, places[place].Variable; base != "" {
				base = filepath.Join(base, rest)
			}
		}
		for _, name := range strings.Fields(t.variables) {
			value, set := c.LookupEnv(name)
			if !set || value == "" {
				continue
			}
			if name == "GOPATH" {
				value = filepath.SplitList(value)[0]
			}
			base, variable = value, name
			if !safe(c.Home, value, t.within == "") {
				base = ""
				refused = append(refused, name)
			}
			break
		}
		if base == "" {
			continue
		}
		// Inside, XDG_CACHE_HOME and the like must be writable for other programs.
		if strings.HasPrefix(variable, "XDG_") && (c.Home == "" || !paths.Inside(view.Home(c.Home), c.Getenv(variable))) {
			variable = ""
		}
		for _, name := range strings.Split(t.within, " ") { // "" is base itself
			dirs = append(dirs, view.ToolDir{Path: filepath.Join(base, name), Variable: variable})
		}
	}
	// A directory comes before those in it: it makes them unnecessary.
	slices.SortStableFunc(dirs, func(a, b view.ToolDir) int { return cmp.Compare(len(a.Path), len(b.Path)) })
	return dirs, refused
}

// xdg is the directory that a variable names, unless that is around the home directory. Without such a
// variable it is one below home.
func (c *Caller) xdg(variable, below string) (dir view.ToolDir) {
	value := c.Getenv(variable)
	switch {
	case !filepath.IsAbs(value) || value != filepath.Clean(value):
		if c.Home != "" {
			dir.Path = filepath.Join(c.Home, below)
		}
	case value != c.Home && !paths.Inside(value, c.Home):
		dir.Path, dir.Variable = value, variable
	}
	return dir
}

// safe reports whether a variable's directory may be shown, as a whole or in part: it is not the system's,
// does not contain the home directory, and holds no credentials.
func safe(home, dir string, whole bool) bool {
	contains := func(place string) bool { return paths.Inside(dir, place) }
	switch {
	case !filepath.IsAbs(dir), filepath.Clean(dir) != dir, strings.IndexByte(dir, 0) >= 0, paths.InsideAny([]string{"/etc", "/proc", "/sys", "/dev", "/run"}, dir),
		slices.ContainsFunc([]string{"/boot", "/root", "/var", "/tmp", "/home", "/usr", "/Users", "/System", "/Library", "/private"}, contains):
		return false
	case home == "":
		return true
	case view.MayHoldSecrets(home, dir):
		return false
	}
	return !whole || !slices.ContainsFunc(slices.Concat(view.SecretDirs[:], mixedDirs[:]), func(place string) bool { return contains(filepath.Join(home, place)) })
}

// findToolchains finds the possible paths of toolchains of this machine's commands.
func (m *Machine) findToolchains() {
	places := &m.Caller
	if m.Owner != nil {
		places = &Caller{Home: m.Owner.Home} // the variables belong to another user
	}
	m.toolchains, m.refusedToolchains = places.toolchains(runtime.GOOS)
}
