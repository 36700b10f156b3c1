package sandboxinit

import (
	"fmt"
	"os"
	"testing"

	"github.com/sbxhost/sbxhost/internal/testing/programs"
)

// The test binary itself serves as the init (the re-execution path), and as the
// command that tries what a shell cannot.
func TestMain(m *testing.M) {
	Hook()
	if len(os.Args) == 3 && os.Args[1] == "sandboxinit-probe" {
		fmt.Println(probe(os.Args[2]))
		os.Exit(0)
	}
	code := m.Run()
	programs.Remove()
	os.Exit(code)
}
