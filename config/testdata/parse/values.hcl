sandbox "a" {
  engine          = "bwrp"
  fallback        = "never"
  filesystem      = "minimum"
  workdir         = "src"
  deny_paths      = []
  env_passthrough = ["GO*", "*", "A=B", "", "EDITOR"]
  env = {
    "1A"  = "x"
    GOOD  = "x"
    "B-C" = "y"
    COUNT = 3
    YES   = true
    LIST  = []
    NONE  = null
  }
}
sandbox "b" {
  engine  = "podman"
  workdir = "/"
  limits {
    timeout    = "5 minutes"
    grace      = "0s"
    memory     = "1g"
    pids       = 15
    open_files = -1
    enforce    = "best-effort"
  }
}
