credential "github" {
  hosts = ["registry.npmjs.org"]
  value = "Bearer ${env.SECRET}"
}

credential "plain" {
  hosts = ["registry.npmjs.org"]
  value = "Bearer of a file that commands may read"
}

credential "changed" {
  hosts = ["registry.npmjs.org"]
  value = "Bearer ${upper(env.SECRET)}"
}

credential "nowhere" {
  hosts = []
  value = env.SECRET
}

credential "wild" {
  hosts = ["*.example.org", "10.0.0.1", "example.org:8443"]
  value = env.SECRET
}

credential "framing" {
  hosts  = ["example.org"]
  header = "Content-Length"
  value  = env.SECRET
}

credential "twice" {
  hosts = ["example.org"]
  value = env.SECRET
}

credential "twice" {
  hosts = ["example.org"]
  value = env.SECRET
}

credential "lines" {
  hosts = ["example.org"]
  value = "a\r\nHost: ${env.SECRET}"
}

credential "binary" {
  hosts = ["example.org"]
  value = env.BINARY
}

credential "missing" {}

credential "ssh-agent" {
  pass = true
}

sandbox "a" {
  network     = ["registry.npmjs.org"]
  credentials = ["npm", "ssh-agent", "plain", "plain"]
}
