# sbxhost configuration. Check it with `sbxhost validate`, lay it out with
# `sbxhost fmt`. Relative paths are relative to this file; ~ is your home
# directory; nothing that is misspelled is ignored.
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
  # them each build begins with nothing. What commands write there, you do not see.
  toolchains = true
}

# Builds, tests and anything else that needs no network.
sandbox "fast" {
  # How to isolate: "auto" is what this platform has, "native" Linux
  # namespaces, "bwrap" the same by bubblewrap, "seatbelt" the macOS sandbox, "noop" nothing at all.
  engine = "native"

  # When the engine cannot run here, nothing runs.
  fallback = "deny"

  # false leaves a loopback interface of the command's own, true is this machine's network,
  # and a list of names, such as ["registry.npmjs.org", "*.github.com"], is all there is.
  network = false

  # What lies beneath: "minimal" is a curated operating system, "host" all of
  # the host's files, read-only.
  filesystem = "minimal"

  # true makes the workspace itself read-only.
  read_only = false

  # true keeps what a command writes to the workspace beside it, for "sbxhost review" to
  # show, apply or discard.
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

  # What git obeys, such as hooks and configuration, cannot be written; "full"
  # gives that up, and tells at its end what a command has changed of it.
  git = "protected"

  # Variables of yours to pass on, with * and ? for what varies. A short list
  # (PATH, HOME, LANG and the like) is always passed; all else is not.
  env_passthrough = ["LC_*", "GOFLAGS", "GOPROXY"]

  # Variables to set.
  env = {
    GIT_TERMINAL_PROMPT = "0"
  }

  # Bounds of each command. There are also grace ("5s" between SIGTERM and the
  # kill) and open_files (descriptors a process).
  limits {
    timeout    = "10m"
    open_files = 4096 # of each process

    # memory (such as "4GiB") and pids can be given as well. Where nothing on
    # this machine holds a limit for all processes together, the command is
    # refused; enforce = "best_effort" runs it and reports what was not held.
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

# On macOS. Elsewhere using it is an error.
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
