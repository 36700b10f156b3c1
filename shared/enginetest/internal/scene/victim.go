package scene

import (
	"os"
	"os/exec"
	"strconv"

	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
)

// NeedVictim starts a process of the host that no sandbox may know of. It has {victim}, a canary, in
// its arguments, its environment, and as an open file in its directory, {victim-dir}; {pid} is its number.
func NeedVictim(s *Scene) {
	canary, dir := "victim-"+s.Canary, s.Path("victim")
	s.Must(s.Write("victim/"+canary, canary))
	held, err := os.Open(s.Path("victim", canary))
	s.Must(err)
	defer held.Close()
	cmd := exec.Command(s.Kit.Program, actor.Arg, "hold", "0", canary)
	cmd.Env = []string{actor.Env, "SECRET=" + canary}
	cmd.Dir = dir
	cmd.ExtraFiles = []*os.File{held}
	child, err := actor.StartChild(cmd)
	s.Must(err)
	s.Cleanup(func() { child.End() })
	s.Values["victim"], s.Values["victim-dir"], s.Values["pid"] = canary, dir, strconv.Itoa(child.Process.Pid)
}
