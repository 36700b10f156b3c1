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

sandbox "a" {
  network            = ["registry.npmjs.org", "npm.example", "api.example", "github.com"]
  inject_credentials = ["npm", "key", "github"]
}
