package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fmt says that a trusted file is not trusted any more when it cannot write its trust down, or read
// it.
func TestTrustIsNotKept(t *testing.T) {
	// Without capabilities, root obeys modes too. The thread ends with this goroutine.
	runtime.LockOSThread()
	var none [2]unix.CapUserData
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o700, 0o500, 0} {
		a, out, errs, path := testApp(t, nil, `sandbox "s" { engine="bwrap" }`)
		if status := runLine(a, []string{"trust", path}); status != 0 {
			t.Fatalf("trust: %d, %q", status, errs)
		}
		store := filepath.Join(a.Getenv("HOME"), ".local/state/sbxhost")
		if err := os.Chmod(store, mode); err != nil {
			t.Fatal(err)
		}
		errs.Reset()
		status := runLine(a, []string{"fmt", path})
		if err := os.Chmod(store, 0o700); err != nil {
			t.Fatal(err)
		}
		said := strings.Contains(errs.String(), "has to be trusted before it is used: ") && strings.Contains(errs.String(), "permission denied")
		if status != 0 || said == (mode == 0o700) {
			t.Errorf("mode %#o: status %d, output %q, errors %q", mode, status, out, errs)
		}
	}
}
