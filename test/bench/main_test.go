package main

import (
	"os"
	"testing"
)

// TestMain makes the test binary play the roles that the benchmark gives
// itself.
func TestMain(m *testing.M) {
	playRole()
	os.Exit(m.Run())
}
