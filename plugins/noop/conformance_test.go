package noop

import (
	"os"
	"testing"

	"github.com/sbxhost/sbxhost/shared/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m, New()) }

func TestConformance(t *testing.T) { enginetest.Run(t, New()) }

// The same in a process of its own, across the wire.
func TestConformanceOfTheProcess(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	enginetest.RunBinary(t, self, enginetest.Options{})
}
