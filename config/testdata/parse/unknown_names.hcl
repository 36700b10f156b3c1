default_sandbx = "a"
network        = true
zzz            = 1

sandbox "a" {
  netwrok = true
  image   = "node:20"
  timeout = "5s"
  limits  = {}
  env {
    A = "1"
  }
  limit {
  }
  frobnicate "x" {
  }
  limits {
    memry = "1GiB"
  }
}

limits {
}
