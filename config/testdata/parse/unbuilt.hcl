workspace {
  temp       = true
  toolchains = true
}
approvals {
  mode         = "ask"
  session_ttl  = "6h"
  allow_bypass = true
}
sandbox "a" {
  engine      = "docker"
  fallback    = "approve"
  limits {
    cpus      = 1.5
    temp_size = "1GiB"
  }
  config {
    image = "node:20"
  }
}
