sandbox "a" {
  deny_paths           = ["a/../b", "*.{pem,key}", "[x", "~", "~other/x", 7]
  protect_paths        = [""]
  protect_paths_except = [".git/hooks"]
  git                  = "none"
  unix_sockets         = ["a/../b"]
}
