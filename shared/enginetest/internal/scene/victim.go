package scene

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
)

// A victim is a process of the host that no sandbox may know of. It has a
// canary in its arguments, its environment and its directory.
type victim struct {
	start  sync.Once
	err    error
	canary string
	child  *actor.Child
}

// NeedVictim starts a victim. Its canary is {victim}, and its number is {victim's pid}.
func NeedVictim(s *Scene) error {
	v := &s.Kit.victim
	v.start.Do(func() { v.err = s.Kit.startVictim() })
	if v.err != nil {
		return v.err
	}
	s.Values["victim"], s.Values["victim's pid"] = v.canary, strconv.Itoa(v.child.Process.Pid)
	return nil
}

func (k *Kit) startVictim() error {
	v := &k.victim
	v.canary = "canary-victim-" + k.Random
	dir := filepath.Join(k.Dir, "victim")
	file := filepath.Join(dir, v.canary)
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(file, []byte(v.canary), 0o644)); err != nil {
		return err
	}
	held, err := os.Open(file)
	if err != nil {
		return err
	}
	defer held.Close()
	cmd := exec.Command(k.Program, actor.Arg, "hold", v.canary)
	cmd.Env = []string{actor.Env, "SECRET=" + v.canary}
	cmd.Dir = dir
	cmd.ExtraFiles = []*os.File{held}
	v.child, err = actor.StartChild(cmd)
	return err
}
