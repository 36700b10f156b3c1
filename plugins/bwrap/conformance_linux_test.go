package bwrap

import (
	"testing"

	"github.com/sbxhost/sbxhost/shared/enginetest"
)

// What the kit demands of every engine.
func TestConformance(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, needBwrap(t))
}
