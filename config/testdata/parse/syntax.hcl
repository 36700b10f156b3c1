sandbox "a" {
  engine = "bwrap
}
