approvals {
  mode         = "always"
  session_ttl  = "90m"
  allow_bypass = true
}

audit {
  path     = "./log/audit.jsonl"
  max_size = "1MiB"
  keep     = 3
  on_error = "continue"
  sync     = false
}

sandbox "fast" {
  engine   = "bwrap"
  fallback = "approve"
}
