workspace {
  temp       = false
  toolchains = false
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
