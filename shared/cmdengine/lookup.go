package cmdengine

import (
	"cmp"
	"os"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/shared"
)

// LookPath finds a command as a shell in dir with that environment would, in the file system of
// this process. A name with a slash is relative to dir. Other names are found in the absolute
// elements of env's PATH; with relative elements the directory would choose the program. The errors
// are ErrNotFound and ErrNotExecutable.
//
// It is for launchers that do not change the view of files.
func LookPath(name, dir string, env []string) (string, error) {
	found, err := sandboxinit.Resolve([]string{name}, "", env, cmp.Or(dir, "."), 0)
	if err != nil {
		return "", execError(err, whereDirect)
	}
	return found.Path, nil
}

// scriptFD is where the shell finds a long script: the last descriptor of one digit, so that the
// launcher can use those before it.
const scriptFD = 9

// withScript puts the script at scriptFD of a process whose descriptors from 3 on are extra. The
// caller closes script.
func withScript(extra []*os.File, script *os.File) ([]*os.File, error) {
	if script == nil {
		return extra, nil
	}
	const room = scriptFD - 3
	if len(extra) > room {
		return nil, &shared.Error{
			Kind: shared.ErrUnsupported, Attribute: "script",
			Message: "is too long for an argument, and the launcher has no descriptor left for it",
			Hint:    "put it in a file",
		}
	}
	files := make([]*os.File, room+1)
	copy(files, extra)
	files[room] = script
	return files, nil
}

// withoutScript returns cmd with the command line that runs its script as an init does, and the file
// of a long script.
func withoutScript(cmd shared.Command) (_ shared.Command, script *os.File, err error) {
	if cmd.Script == "" {
		return cmd, nil, nil
	}
	p, refused := sandboxinit.Resolve(cmd.Args, cmd.Script, cmd.Env, cmp.Or(cmd.Dir, "."), scriptFD)
	if refused != nil {
		return cmd, nil, execError(refused, whereDirect)
	}
	if p.Script != "" {
		if script, err = sandboxinit.Sealed("script", p.Script); err != nil {
			err = unavailable("passing on the script: " + err.Error())
		}
	}
	cmd.Args, cmd.Script = append([]string{p.Path}, p.Argv[1:]...), ""
	return cmd, script, err
}
