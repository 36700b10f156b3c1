sandbox "a" {
  config {
    x = 1
  }
}
sandbox "b" {
  engine = "bwrap"
  config {
    x = nosuch.name
    inner {
      y = frob()
    }
  }
  config {}
}
