workspace {
  temp       = true
  toolchains = true
}
approvals {
  mode         = "deny"
  allow_bypass = false
}
engine "docker" {
  source = "/opt/docker-engine"
}
sandbox "a" {
  engine      = "docker"
  fallback    = "deny"
  credentials = []
}
