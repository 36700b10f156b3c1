package main

import (
	"os"
	"testing"

	"github.com/sbxhost/sbxhost/shared/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m, engine()) }

func TestConformance(t *testing.T) { enginetest.Run(t, engine()) }

// The same in a process of its own: the test's program is the engine, too.
func TestBinary(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	enginetest.RunBinary(t, self, enginetest.Options{StreamBytes: 1 << 20})
}
