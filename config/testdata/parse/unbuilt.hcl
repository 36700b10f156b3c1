workspace {
  temp       = true
  toolchains = true
}
sandbox "a" {
  engine      = "docker"
  deny_paths  = ["secrets/"]
  limits {
    cpus      = 1.5
    temp_size = "1GiB"
  }
  config {
    image = "node:20"
  }
}
