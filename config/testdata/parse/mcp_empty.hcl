sandbox "fast" {}

mcp { sandboxes = [] }
