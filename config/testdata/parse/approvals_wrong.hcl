approvals {
  mode         = "never"
  allow_bypass = "yes"
  scope        = "always"
}

audit {
  keep = 3
}

sandbox "fast" {
  mode = "ask"
}
