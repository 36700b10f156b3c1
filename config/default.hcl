# What is in force where no configuration is found.
default_sandbox = "default"

sandbox "default" {
  engine  = "auto"
  network = false
}
