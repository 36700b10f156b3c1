package bwrap

import (
	"os"
	"testing"

	"github.com/sbxhost/sbxhost/shared/enginetest"
)

// What the kit demands of every engine. A short run tries everything in this process, and
// the contract alone in sessions and across the wire.
func TestConformance(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, needBwrap(t))
}

func TestConformanceInSessions(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, needBwrap(t), again(enginetest.Options{Session: true}))
}

func TestConformanceOfTheProcess(t *testing.T) {
	t.Parallel()
	needBwrap(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	enginetest.RunBinary(t, self, again(enginetest.Options{}))
}

// again has a short run try the contract alone, with short streams.
func again(o enginetest.Options) enginetest.Options {
	if testing.Short() {
		o.ContractOnly, o.StreamBytes = true, 1<<20
	}
	return o
}
