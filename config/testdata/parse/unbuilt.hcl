approvals {
  mode         = "ask"
  session_ttl  = "6h"
  allow_bypass = true
}
sandbox "a" {
  engine      = "docker"
  fallback    = "approve"
  config {
    image = "node:20"
  }
}
