package enginetest_test

import (
	"testing"

	"github.com/sbxhost/sbxhost/plugins/noop"
	"github.com/sbxhost/sbxhost/shared/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m, noop.New()) }
