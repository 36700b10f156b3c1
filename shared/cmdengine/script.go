package cmdengine

import (
	"os"
	"strconv"

	"github.com/sbxhost/sbxhost/shared"
)

const (
	// maxInlineScript leaves room below Linux's 128 KiB for one argument.
	maxInlineScript = 96 << 10

	// scriptFD is where the shell finds a longer script: one digit, because
	// dash takes the 10 of `exec 10<&-` for a command, and the last one, to leave
	// those before it to the launcher.
	scriptFD = 9
)

// scriptArgs is the command line that runs a script the way package
// sandboxinit does: bash as a login shell, or sh. For a long script it also
// gives the text that must be readable at scriptFD.
func scriptArgs(cmd *shared.Command) (args []string, text string) {
	shell, flag := "sh", "-c"
	for _, path := range []string{searchPath(cmd.Env), "/bin:/usr/bin"} {
		if file, err := lookup("bash", cmd.Dir, []string{"PATH=" + path}); err == nil {
			shell, flag = file, "-lc"
			break
		}
		if file, err := lookup("sh", cmd.Dir, []string{"PATH=" + path}); err == nil && shell == "sh" {
			shell = file
		}
	}
	name := "sh"
	if flag == "-lc" {
		name = "bash"
	}
	inline := cmd.Script
	if len(inline) > maxInlineScript {
		fd := strconv.Itoa(scriptFD)
		inline = ". /dev/fd/" + fd
		// What the script runs must not inherit it. On the script's own first
		// line, so that line numbers stay right.
		text = "exec " + fd + "<&-; " + cmd.Script
	}
	return append([]string{shell, flag, inline, name}, cmd.Args...), text
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
			Message: "over " + strconv.Itoa(maxInlineScript) + " bytes, and the launcher has no descriptor left for it",
			Hint:    "put it in a file",
		}
	}
	files := make([]*os.File, room+1)
	copy(files, extra)
	files[room] = script
	return files, nil
}
