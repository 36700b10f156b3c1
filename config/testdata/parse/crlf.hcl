sandbox "a" {
  network = truth
}
