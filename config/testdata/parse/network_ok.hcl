sandbox "names" {
  network    = ["registry.npmjs.org", "*.github.com:8443,443", "db.internal:5432 private"]
  host_ports = [5432, 6379]
  publish    = [3000, "8080:80", "192.0.2.1:8080:80"]
}

sandbox "nothing" {
  network = []
}
