sandbox "a" {
  network = true
  network = false
  x =
}
