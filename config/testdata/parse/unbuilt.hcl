  config {
    image = "node:20"
  }
}
