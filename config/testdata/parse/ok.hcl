default_sandbox = "fast"
workspace {
  root     = "."
  readable = ["/opt/tools", "more"]
  writable = ["~/out"]
  env      = { GIT_AUTHOR_NAME = "x" }
}
engine "mine" {
  source = "~/bin/mine"
  env    = ["MINE_HOME"]
}
sandbox "fast" {
  engine          = "bubblewrap"
  fallback        = "deny"
  network         = platform.os == "linux"
  filesystem      = "host"
  read_only       = true
  workdir         = "/workspace"
  bind_paths = concat(
    ["~/.gitconfig", "~", { host = "${home}/cache", container = "/cache/", read_only = false, optional = true }],
    [for d in ["x", "y"] : "${workspace.root}/${d}"],
    [coalesce(env.AGENT_DIR, "~/.agent"), upper("/a")],
  )
  env_passthrough = ["LC_*"]
  env             = { CI = 1, DEBUG = true, P = 1.5, S = env.SECRET }
  limits {
    timeout    = "1m30s"
    grace      = "2s"
    memory     = "512MiB"
    pids       = 17
    cpus       = 1.5
    temp_size  = "64MiB"
    open_files = 64
    enforce    = "best_effort"
  }
}
sandbox "foreign" {
  engine = "mine"
  config {
    image = "x"
  }
}
