package stdio

import "os"

// A mirror is needed only where a command can open its standard input again, for writing.
type mirror struct{}

func (*Files) mirrored(stdin *os.File) (*os.File, error) { return stdin, nil }
func (*mirror) run()                                     {}
func (*mirror) stop() error                              { return nil }

func reopen(pipe *os.File) (*os.File, error) { return duplicate(pipe) }
