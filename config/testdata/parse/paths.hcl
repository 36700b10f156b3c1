workspace {
  root     = ".."
  readable = ["~bob/x", "a/../b", ""]
  writable = ["$HOME/x", "~/ok", "rel/ok"]
}
engine "mine" {
  source = "~root/engine"
}
sandbox "a" {
  bind_paths = [
    "~alice",
    "/a/../b",
    7,
    null,
    { container = "/x" },
    { host = "/x", container = "x" },
    { host = "/x", container = "/a/../b" },
    { host = "/y", readonly = true },
    { source = "/z" },
    { host = "/w", read_only = "no", optional = 1 },
    { host = "/v", target = "/v" },
    { host = "/v", foo = "/v" },
    "..fine/a..b",
  ]
}
