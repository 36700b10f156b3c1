sandbox "good" {
  network    = ["registry.npmjs.org", "*.XN--Bcher-kva.example:8443,443", "db.internal:5432 private"]
  host_ports = [5432, 6379]
  publish    = [3000, "8080:80", "192.0.2.1:8080:80"]
}

sandbox "nothing" {
  network = []
}

sandbox "bad" {
  network = [
    "192.0.2.1",
    "*.com",
    "*",
    "a.example:0",
    "a.example:80:81",
    "https://a.example/",
    "localhost:5432",
    "a.example trusted",
    80,
  ]
  host_ports = [0, 70000, "5432"]
  publish    = ["x", 70000, "a.example:80:80", true]
}

sandbox "kind" {
  network    = "registry.npmjs.org"
  host_ports = 5432
  publish    = "3000"
}
