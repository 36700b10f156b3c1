sandbox "offline" {
  engine = "native"
  limits {
    timeout = "1m"
  }
}

sandbox "here" {
  engine  = "noop" # no isolation, for what is your own
  network = true
}

step "look" {
  sandbox = "offline"
  command = ["ls", project]
}

step "count" {
  sandbox = "offline"
  command = ["sh", "-c", "for i in 1 2 3; do echo $i; done"]
}

step "tell" {
  sandbox = "here"
  command = ["echo", "both are done"]
  needs   = ["look", "count"]
}
