package native

import (
	"os"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest"
)

// The test binary is the init and the holder, as sbxhost is, what the
// conformance kit runs inside, and an engine's process for the tests that kill one.
func TestMain(m *testing.M) {
	enginetest.Hook()
	if len(os.Args) > 1 && os.Args[1] == engineArg {
		os.Exit(engineMain(os.Args[2:]))
	}
	enginetest.Main(m, New())
}

// need gives an engine that works. There is no machine with Linux 5.12 on which
// its tests are passed over but one that refuses namespaces.
func need(t testing.TB) shared.Engine {
	t.Helper()
	e := New()
	p, err := e.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !p.Ready {
		t.Fatalf("the engine does not work here: %s", p.Reason)
	}
	return e
}

// What the kit demands of every engine. A short run tries everything in this process, the
// contract alone in sessions and across the wire, and the probes in sandboxes that were
// made beforehand.
func TestConformance(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, need(t))
}

func TestConformanceInSessions(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, need(t), enginetest.Options{Session: true, ContractOnly: testing.Short()})
}

func TestConformanceOfPrepared(t *testing.T) {
	t.Parallel()
	sessions := map[string]bool{"alone": false, "in sessions": true}
	if testing.Short() {
		delete(sessions, "in sessions")
	}
	for name, session := range sessions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enginetest.Run(t, need(t), enginetest.Options{Prepared: true, ProbesOnly: true, Session: session})
		})
	}
}

func TestConformanceOfTheProcess(t *testing.T) {
	t.Parallel()
	need(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	enginetest.RunBinary(t, self, enginetest.Options{ContractOnly: testing.Short()})
}
