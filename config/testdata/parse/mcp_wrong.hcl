sandbox "fast" {}
sandbox "open" { engine = "noop" }

mcp {
  sandboxes   = ["fsat", "open", workspace.root, 3]
  directories = []
  apply       = "yes"
  sandbox     = "fast"
}

mcp {}
