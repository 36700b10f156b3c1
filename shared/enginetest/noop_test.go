package enginetest_test

import (
	"os"
	"testing"

	"github.com/sbxhost/sbxhost/plugins/noop"
	"github.com/sbxhost/sbxhost/shared/enginetest"
)

// The engine that does not isolate keeps the contract all the same.
func TestNoop(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, noop.New())
}

func TestNoopProcess(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	enginetest.RunBinary(t, self)
}
