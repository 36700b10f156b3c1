package landlock

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m, New()) }

// need gives an engine that works.
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

// What the kit demands of every engine, by each version of Landlock up to this kernel's: by
// the first and the last of them in a short run.
func TestConformance(t *testing.T) {
	t.Parallel()
	e := need(t)
	newest, err := abiOf(options{})
	if err != nil {
		t.Fatal(err)
	}
	for abi := 1; abi <= newest; abi++ {
		if testing.Short() && abi > 1 && abi < newest {
			continue
		}
		t.Run(fmt.Sprint(abi), func(t *testing.T) {
			t.Parallel()
			enginetest.Run(t, e, enginetest.Options{EngineOptions: json.RawMessage(fmt.Sprintf(`{"abi": %d}`, abi)), ProbesOnly: abi < newest})
		})
	}
}

func TestConformanceOfPrepared(t *testing.T) {
	t.Parallel()
	o := enginetest.Options{Prepared: true, ProbesOnly: true}
	if testing.Short() {
		o.Run = regexp.MustCompile(`^((life|env|host)\.|proc\.4|write\.[0-6]|read\.[0-3])`)
	}
	enginetest.Run(t, need(t), o)
}

func TestConformanceInSessions(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, need(t), enginetest.Options{Session: true})
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
