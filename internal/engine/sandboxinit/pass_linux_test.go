package sandboxinit

import (
	"io"
	"testing"
)

// Without a command, a signal would be for the init's own group.
func TestSignalBeforeTheCommand(t *testing.T) {
	t.Parallel()
	engine, init, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	(&supervisor{control: controlSocket(init.Fd())}).pass(0)
	init.Close()
	if answer, err := io.ReadAll(engine); err != nil || len(answer) > 0 {
		t.Errorf("somebody got it: %q, %v", answer, err)
	}
}
