package seatbelt

import (
	"testing"

	"github.com/sbxhost/sbxhost/shared/enginetest"
)

// The kit's contract - statuses, signals, timeouts, streams, terminals, what ends
// with a command - on the engine with the fake launcher, which isolates nothing:
// that part of the engine is the same here and on a Mac.
func TestFakeConformance(t *testing.T) {
	t.Parallel()
	for name, inSession := range map[string]bool{"without a session": false, "in sessions": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enginetest.Run(t, newFake(t).engine, enginetest.Options{
				ContractOnly: true, Brief: true, StreamBytes: 4 << 20, Session: inSession,
				Known: map[string]string{"command.11": "the fake shows the processes of all commands", "command.19": brokenRules["command.19"]},
			})
		})
	}
}
