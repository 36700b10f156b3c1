# sbxhost configuration. Check it with `sbxhost validate`, format it with
# `sbxhost fmt`. Relative paths are relative to this file; ~ is your home
# directory. A misspelled name is an error.
#
# Expressions can use env.NAME (null when not set), home, workspace.root,
# platform.os, platform.arch, and functions such as coalesce, concat, format,
# join, merge and replace.

# The sandbox that `sbxhost exec` uses when -sandbox names none.
default_sandbox = "fast"

# The workspace is the git top level above the current directory, else the current
# directory. There are also root, to choose another one, and readable and writable, lists
# of further directories to show.
workspace {
  # The toolchains and caches of your home directory, such as ~/go and ~/.cargo: without
  # them each build begins with nothing. Commands can write there; your own files do not
  # change.
  toolchains = true
}

# Builds, tests and anything else that needs no network.
sandbox "fast" {
  # How to isolate: "auto" (the first engine that works), "native" (Linux namespaces),
  # "bwrap" (the same, by bubblewrap), "seatbelt" (macOS), "noop" (no isolation).
  engine = "native"

  # When the engine cannot run here, nothing runs.
  fallback = "deny"

  # false: no network. true: this machine's network. A list, such as
  # ["registry.npmjs.org", "*.github.com"]: only these names.
  network = false

  # What commands see besides the workspace: "minimal" is a curated operating
  # system, "host" all of the host's files, read-only.
  filesystem = "minimal"

  # true makes the workspace itself read-only.
  read_only = false

  # true: each command writes to a review, not to the workspace. "sbxhost review" shows,
  # applies or discards it.
  review = false

  # Where the workspace lies inside: "host" is its own path; an absolute path,
  # such as "/workspace", moves it there.
  workdir = "host"

  # Further paths to show, read-only unless said otherwise. `container` is the
  # path inside, by default the same. A missing path is an error unless it is
  # optional.
  bind_paths = [
    { host = "~/.gitconfig", optional = true },
  ]

  # What commands cannot read, and what they can read but not write.
  # deny_paths    = ["**/.env"]
  # protect_paths = ["Makefile"]

  # protected: commands cannot write what git obeys, such as hooks and
  # configuration. full: commands can write it; sbxhost lists what they changed.
  git = "protected"

  # Variables of yours to pass on; * and ? are wildcards. A short list (PATH,
  # HOME, LANG and the like) is always passed; all else is not.
  env_passthrough = ["LC_*", "GOFLAGS", "GOPROXY"]

  # Variables to set.
  env = {
    GIT_TERMINAL_PROMPT = "0"
  }

  # Bounds of each command.
  limits {
    timeout    = "10m"
    open_files = 4096 # of each process

    # memory (such as "4GiB") and pids can be given as well. If this machine cannot
    # enforce a limit for all processes together, the command is refused;
    # enforce = "best_effort" runs it, and reports limits that were approximated or
    # not enforced.
    enforce = "required"
  }
}

# The same with the host's network: installing dependencies, fetching, pushing.
sandbox "online" {
  engine          = "native"
  network         = true
  bind_paths      = [{ host = "~/.gitconfig", optional = true }]
  env_passthrough = ["LC_*", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"]

  limits {
    timeout = "30m"
  }
}

# For macOS. On other systems, using it is an error.
sandbox "mac" {
  engine     = "seatbelt"
  network    = false
  bind_paths = [{ host = "~/.gitconfig", optional = true }]
}

# Engines that are not built in are declared by the path of their executable,
# and used by their name: engine = "mine".
#
# engine "mine" {
#   source = "~/.local/lib/sbxhost-engine-mine"
#   env    = ["MINE_HOME"] # what the engine process sees of your environment
# }
