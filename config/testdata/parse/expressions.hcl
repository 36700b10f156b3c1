sandbox "a" {
  engine     = bwrap
  fallback   = coalesce(env.MISSING)
  workdir    = "${env.MISSING}/x"
  filesystem = env.MISSING
  bind_paths = [
    homee,
    env,
    env[home],
    workspace.top,
    frob("x"),
    uper("x"),
    regex("(", "x"),
    platform.os.x,
    lower(3),
    coalesce(env.MISSING, env.ALSO_MISSING),
    coalesce(env["MISSING"], "~/ok"),
    "${env.BINARY}",
    foo.bar,
  ]
  env = {
    SECRET_TYPE = [env.SECRET]
    SECRET_CALL = tonumber(env.SECRET)
  }
}
workspace {
  root = "${workspace.root}/x"
}
sandbox "leaks" {
  engine          = env.SECRET
  fallback        = env.SECRET
  workdir         = env.SECRET
  filesystem      = { a = 1 }[env.SECRET]
  read_only       = [for s in [env.SECRET] : tobool(s)][0]
  bind_paths      = ["${env.SECRET}/..", { (env.SECRET) = 1 }, concat(["~${env.SECRET}"], [])[0]]
  env             = merge({ "${env.SECRET}-x" = [] })
  env_passthrough = [format("%d", upper(env.SECRET)), "-${env.SECRET}"]
  limits {
    timeout = env.SECRET
    memory  = env.SECRET
  }
}
default_sandbox = env.SECRET
