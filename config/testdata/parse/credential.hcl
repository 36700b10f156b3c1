credential "npm" {
  hosts = ["registry.npmjs.org", "NPM.Example."]
  value = "Bearer ${env.SECRET}"
}

credential "key" {
  hosts  = ["api.example"]
  header = "X-Api-Key"
  value  = env.SECRET
}

credential "basic" {
  hosts = ["api.example"]
  value = "${env.SECRET}:${env.EMPTY}"
}

credential "absent" {
  hosts = ["api.example"]
  value = "Bearer ${env.ABSENT}"
}

credential "passed" {
  value = "Bearer ${env.SECRET}"
  pass  = true
}

credential "github" {
  pass = true
}

credential "github-cli" {
  pass = false
}

sandbox "a" {
  network     = ["registry.npmjs.org", "npm.example", "api.example", "github.com"]
  credentials = ["npm", "key", "github", "passed", "ssh-agent"]
}
