approvals {
  mode         = "never"
  session_ttl  = "0s"
  allow_bypass = "yes"
  scope        = "always"
}

audit {
  max_size = 100
  keep     = 0
  on_error = "ignore"
}

sandbox "fast" {
  mode = "ask"
}
