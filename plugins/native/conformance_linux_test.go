package native

import (
	"os"
	"regexp"
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

// What the kit demands of every engine. A short run tries it in this process alone, and in
// sandboxes that were made beforehand what a process begins with, and what it leaves.
func TestConformance(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, need(t))
}

func TestConformanceInSessions(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, need(t), enginetest.Options{Session: true})
}

func TestConformanceOfPrepared(t *testing.T) {
	t.Parallel()
	o := enginetest.Options{Prepared: true, ProbesOnly: true}
	if testing.Short() {
		o.Run = regexp.MustCompile(`^((life|env|host)\.|write\.[67])`)
		enginetest.Run(t, need(t), o)
		return
	}
	for name, session := range map[string]bool{"alone": false, "in sessions": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := o
			o.Session = session
			enginetest.Run(t, need(t), o)
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
	enginetest.RunBinary(t, self, enginetest.Options{})
}
