approvals {
  mode         = "always"
  allow_bypass = true
}

audit {
  path = "./log/audit.jsonl"
}

sandbox "fast" {
  engine   = "bwrap"
  fallback = "approve"
}
