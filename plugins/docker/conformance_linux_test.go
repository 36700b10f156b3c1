package docker

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/sbxhost/sbxhost/shared/enginetest"
)

// conformance are the contract's rules, and of the probes those that this
// engine's own code answers for. A container takes some hundred milliseconds: all
// probes are tried by TestTableOfProbes of package enginetest.
var conformance = regexp.MustCompile(`^((open|end|stream|command|misuse|crowd)\..*|read\.(0[1-5]|19|4[0-9]|59)|write\.(1[678]|24|3[1-5]|6[0-9]|7[0-2])|` +
	`proc\.(0[56]|13|3[5-9])|kernel\.(01|05|20|39)|life\.0[135]|net\.(0[149]|18|20|2[789]|3[0-3])|env\.0[145]|host\.(0[1249]|2[2-6]))$`)

// What the kit demands of every engine, in an image that holds busybox and
// nothing else.
func TestConformanceInContainers(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	dir, err := initDir()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	if !withRootless() {
		known["proc.05"] = "the daemon does not give containers a user namespace unless it is set up to"
	}
	enginetest.Run(t, e, enginetest.Options{
		EngineOptions: rawOptions(t, opts{}), Program: filepath.Join(dir, "probe"), StreamBytes: 8 << 20, Brief: true, Run: conformance,
		Known: known,
	})
}
