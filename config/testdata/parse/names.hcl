sandbox "none" {}
sandbox "-rf" {}
sandbox "" {}
sandbox {}
sandbox "a" "b" {}
sandbox "ok" {}
workspace "x" {}
engine "auto" {
  source = "/opt/x"
}
engine "noop" {
  source = "/opt/x"
}
engine "a b" {
  source = "/opt/x"
}
engine "mine" {
  env = ["A-B"]
}
default_sandbox = "okk"
