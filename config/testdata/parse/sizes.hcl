sandbox "a" {
  limits { memory = "1GB" }
}
sandbox "b" {
  limits { memory = "MiB" }
}
sandbox "c" {
  limits { memory = "12" }
}
sandbox "d" {
  limits { memory = "99999999999GiB" }
}
sandbox "e" {
  limits { memory = "1MiB" }
}
sandbox "f" {
  limits { memory = "1.5GiB" }
}
sandbox "g" {
  limits { memory = "lots" }
}
sandbox "h" {
  limits {
    cpus      = 0
    temp_size = 5
  }
}
sandbox "i" {
  limits { cpus = "1.5" }
}
sandbox "j" {
  limits { cpus = 100000 }
}
