default_sandbox="fast"   
workspace{
root="."
    readable=[ "/opt/tools","/opt/x" ]# why
  writable = []   # none
}
sandbox   "fast"   {
engine="bwrap" # comment one
network=false    // two
  # own line
     bind_paths=[
"~/.gitconfig",
      {host="~/c",container="/cache",read_only=false},
 [ for x in [1,2]:x if x>1 ],
 ]
env={A="1",BB = "2"}
empty={}
    long_object = {
  a=1
  bbbb="x${env.A}  y"
      "c c"=!true
  }
  cond=env.A==null?"x":"y"
  idx = list [0]
  call = upper ( "x" , lower("y")... )
  neg=-1
  sum = 1+2 - 3
  doc = <<EOT
   verbatim   text
      ${env.X}
EOT
  doc2 = <<-EOT
   verbatim   text
  EOT
  after = 1
  nested = [{
a=1
  },{
b=2
}]



  limits{
timeout="2m"
/* multi
     line */
  pids=5
  }
}
/* x */ sandbox "b" {}
