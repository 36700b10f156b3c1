sandbox "a" {}
