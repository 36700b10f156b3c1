approvals {
  mode         = "ask"
  session_ttl  = "6h"
  allow_bypass = true
}
sandbox "a" {
  engine      = "docker"
  fallback    = "approve"
  deny_paths  = ["secrets/"]
  limits {
    cpus      = 1.5
    temp_size = "1GiB"
  }
  config {
    image = "node:20"
  }
}
