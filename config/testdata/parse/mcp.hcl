default_sandbox = "fast"

sandbox "fast" {}
sandbox "online" { network = ["registry.npmjs.org"] }

mcp {
  sandboxes   = ["online", "fast"]
  directories = ["sub", "~/library"]
  apply       = true
}
