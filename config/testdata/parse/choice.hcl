sandbox "a" {}
sandbox "b" {}
