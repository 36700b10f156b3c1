default_sandbox = 3
workspace {
  root     = true
  readable = "/opt"
  env      = ["A"]
}
sandbox "a" {
  engine          = ["bwrap"]
  fallback        = 1
  network         = "false"
  filesystem      = null
  read_only       = 0
  workdir         = false
  bind_paths      = "~/.gitconfig"
  env_passthrough = { A = "1" }
  env             = "A=1"
  limits {
    timeout    = 90
    grace      = true
    memory     = 1024
    pids       = "many"
    open_files = 1.5
    enforce    = 1
  }
}
