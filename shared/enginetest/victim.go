package enginetest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/sbxhost/sbxhost/shared/enginetest/actor"
)

// A victim is a process of the host that no sandbox may know of. It has a
// canary in its arguments, its environment and its directory.
type victim struct {
	start  sync.Once
	err    error
	canary string
	child  *actor.Child
}

// needVictim wants there to be one. Its canary is {victim}, its number {victim's pid}.
func needVictim(s *scene) error {
	v := &s.suite.victim
	v.start.Do(func() { v.err = s.suite.startVictim() })
	if v.err != nil {
		return v.err
	}
	s.values["victim"], s.values["victim's pid"] = v.canary, strconv.Itoa(v.child.Process.Pid)
	return nil
}

func (s *Suite) startVictim() error {
	v := &s.victim
	v.canary = "canary-victim-" + s.random
	dir := filepath.Join(s.dir, "victim")
	file := filepath.Join(dir, v.canary)
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(file, []byte(v.canary), 0o644)); err != nil {
		return err
	}
	held, err := os.Open(file)
	if err != nil {
		return err
	}
	defer held.Close()
	cmd := exec.Command(s.actor, actor.Arg, "hold", v.canary)
	cmd.Env = []string{actor.Env, "SECRET=" + v.canary}
	cmd.Dir = dir
	cmd.ExtraFiles = []*os.File{held}
	v.child, err = actor.StartChild(cmd)
	return err
}
