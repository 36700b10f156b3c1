approvals {
  mode         = "always"
  session_ttl  = "90m"
  allow_bypass = true
}

audit {
  path = "./log/audit.jsonl"
}

sandbox "fast" {
  engine   = "bwrap"
  fallback = "approve"
}
