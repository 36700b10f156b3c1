package bwrap

import (
	"os"
	"testing"

	"github.com/sbxhost/sbxhost/shared/enginetest"
)

// What the kit demands of every engine. A short run tries it in this process alone.
func TestConformance(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, needBwrap(t))
}

func TestConformanceInSessions(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, needBwrap(t), enginetest.Options{Session: true})
}

func TestConformanceOfTheProcess(t *testing.T) {
	t.Parallel()
	needBwrap(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	enginetest.RunBinary(t, self, enginetest.Options{})
}
