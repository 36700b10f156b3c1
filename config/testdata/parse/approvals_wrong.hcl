approvals {
  mode         = "never"
  session_ttl  = "0s"
  allow_bypass = "yes"
  scope        = "always"
}

audit {
  keep = 3
}

sandbox "fast" {
  mode = "ask"
}
