sandbox "a\u001b[2J" {
  engine = "\u001b]0;x\u0007"
  workdir = "\u0000"
}
