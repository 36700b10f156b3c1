package test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// An executable is resident in each process of it. Where it looks
// up a method by a name that is known only when it runs, the linker keeps every
// exported method of every type, which is a fifth of the file. These do that,
// and what go-plugin and its dependencies have of them is not linked.
var looksUpMethods = []string{"net/rpc.suitableMethods", "text/template.(*state).evalField"}

// Function names are in each Go executable, for its stack traces.
func TestNoMethodsAreLookedUp(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	build(t, bin, "cmd/sbxhost", "plugins/noop/sbxhost-engine-noop", "plugins/native/sbxhost-engine-native", "plugins/bwrap/sbxhost-engine-bwrap", "plugins/landlock/sbxhost-engine-landlock")
	for _, name := range []string{"sbxhost", "sbxhost-engine-noop", "sbxhost-engine-native", "sbxhost-engine-bwrap", "sbxhost-engine-landlock"} {
		text, err := os.ReadFile(filepath.Join(bin, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(text, []byte("shared.(*listeningSocket).announce")) {
			t.Fatalf("%s: names of functions cannot be found", name)
		}
		for _, f := range looksUpMethods {
			if bytes.Contains(text, []byte(f)) {
				t.Errorf("%s links %s", name, f)
			}
		}
	}
}
