approvals { mode = "deny" }
sandbox "a" {
  deny_paths           = ["secrets/", "**/*.pem", "~/.ssh", "/etc/[a-c]?.key"]
  protect_paths        = ["Makefile", "**/.github/"]
  protect_paths_except = [".vscode/", ".envrc"]
  git                  = "full"
  unix_sockets         = ["/run/x.sock", "~/y.sock"]
}
