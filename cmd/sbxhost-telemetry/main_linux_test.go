package main_test

import (
	"os"
	"testing"

	"github.com/sbxhost/sbxhost/internal/testing/programs"
)

func TestMain(m *testing.M) {
	code := m.Run()
	programs.Remove()
	os.Exit(code)
}
