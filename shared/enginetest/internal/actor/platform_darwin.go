package actor

import "golang.org/x/sys/unix"

// typeInto puts a character into the input of the terminal that is standard input.
func typeInto([]string) (string, error) {
	return "a character was typed", unix.IoctlSetPointerInt(0, unix.TIOCSTI, ' ')
}

// platformActions are those of macOS alone.
func platformActions() map[string]action { return map[string]action{"tiocsti": typeInto} }
