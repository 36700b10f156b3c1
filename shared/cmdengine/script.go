//go:build unix

package cmdengine

import (
	"cmp"
	"os"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// scriptFD is where the shell finds a long script: the last one of one digit, to leave
// those before it to the launcher.
const scriptFD = 9

// scriptArgs is the command line that runs a script the way an init does. For a
// long one it also gives the text that must be readable at scriptFD.
func scriptArgs(cmd *shared.Command) (args []string, text string, err error) {
	p, refused := sandboxinit.Resolve(cmd.Args, cmd.Script, cmd.Env, cmp.Or(cmd.Dir, "."), scriptFD)
	if refused != nil {
		return nil, "", execError(refused, whereDirect)
	}
	return append([]string{p.Path}, p.Argv[1:]...), p.Script, nil
}

// withScript puts the script at scriptFD of a process whose descriptors from 3
// on are extra. The caller closes script.
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
