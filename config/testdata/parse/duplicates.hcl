sandbox "a" {
  network = false
}
sandbox "a" {
  network = true
  env = {
    A = "1"
    A = "2"
  }
  bind_paths = [
    "/opt/tools",
    { host = "/opt/tools/", read_only = false },
    { host = "/srv", container = "/opt/tools" },
  ]
  limits {}
  limits {}
}
engine "mine" {
  source = "/opt/mine"
}
engine "mine" {
  source = "/opt/mine2"
}
workspace {}
workspace {}
