package host_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// An initialiser of this program, as an embedder has some. It notes that it ran in a file beside
// the program, where there is one: the init of a sandbox has no variables.
var _ = func() bool {
	self, err := os.Executable()
	if err != nil || filepath.Base(self) != "program" {
		return false
	}
	f, err := os.OpenFile(filepath.Join(filepath.Dir(self), "count"), os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		f.WriteString("x")
		f.Close()
	}
	return true
}()

// With sbxhost-init beside a program, its initialisers run for itself, for its engine and for the
// holder, and for no command. Without it, they run for each.
func TestInitialisersRunOncePerEngine(t *testing.T) {
	t.Parallel()
	requireBwrap(t)
	self, err := os.Executable()
	must(t, err)
	// Not by this process: one that another test starts then could have the program open to write.
	place := func(name string) error { return exec.Command("cp", self, name).Run() }
	top := realTemp(t)
	must(t, os.Chmod(top, 0o755))
	// This program can serve as the init, too, and does not count under that name.
	must(t, os.Mkdir(top+"/beside", 0o755), place(top+"/beside/sbxhost-init"))
	for where, perCommand := range map[string]int{"alone": 1, "beside": 0} {
		dir := top + "/" + where
		must(t, os.MkdirAll(dir, 0o755), place(dir+"/program"), os.MkdirAll(top+"/project", 0o755))
		runs := func(commands int) int {
			must(t, os.WriteFile(dir+"/count", nil, 0o666), os.Chmod(dir+"/count", 0o666))
			cmd := exec.Command(dir+"/program", strconv.Itoa(commands))
			cmd.Env = append(os.Environ(), countedEnv+"="+top+"/project")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", where, err, out)
			}
			text, err := os.ReadFile(dir + "/count")
			must(t, err)
			return bytes.Count(text, []byte("x"))
		}
		one, four := runs(1), runs(4)
		if one < 2 || four-one != 3*perCommand {
			t.Errorf("%s: initialisers ran %d times for one command and %d for four", where, one, four)
		}
	}
}
