//go:build unix

package facts

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"
)

// A HOME elsewhere, as of sudo, hides no home from this.
func TestWhyNotProposed(t *testing.T) {
	t.Parallel()
	m := &Machine{Config: Config{Caller: Caller{UID: os.Getuid(), Home: "/none/home"}}}
	own := cmp.Or(accountHome(os.Getuid()), "/root")
	for p, want := range map[string]string{
		"/": mayHoldCredentials, "/none": mayHoldCredentials, "/none/home": mayHoldCredentials, "/none/home/.ssh/id": mayHoldCredentials, "/none/home/src": "",
		"/root": mayHoldCredentials, "/root/.ssh": mayHoldCredentials, "/root/src": "", "/home": mayHoldCredentials, "/Users": mayHoldCredentials, "/home/src": "",
		own: mayHoldCredentials, filepath.Join(own, ".aws/config"): mayHoldCredentials, "/srv": "", "/run": "it gives containers that mount the whole host, as root",
	} {
		if got := m.WhyNotProposed(p); got != want {
			t.Errorf("%s: %q, want %q", p, got, want)
		}
	}
}

func TestUnwritable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	closed := filepath.Join(dir, "closed")
	for p, mode := range map[string]os.FileMode{"open": 0o755, "closed": 0o755} {
		if err := os.Mkdir(filepath.Join(dir, p), mode); err != nil {
			t.Fatal(err)
		}
	}
	for p, mode := range map[string]os.FileMode{"open/read": 0o444, "closed/write": 0o644, "closed/read": 0o444} {
		if err := os.WriteFile(filepath.Join(dir, p), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(closed, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(closed, 0o755) })
	w := &Witness{Machine: &Machine{Config: Config{Caller: Caller{UID: os.Getuid()}}}}
	for p, want := range map[string]string{"open/new": "", "open/read": "", "closed": closed, "open": "", "closed/new": closed, "closed/new/deeper": closed, "closed/write": "", "closed/read": closed} {
		if got := w.Unwritable(filepath.Join(dir, p)); got != want {
			t.Errorf("%s: %q, want %q", p, got, want)
		}
	}
	w.Caller.UID++ // neither owner nor, by these modes, of a group that can write
	if got := w.Unwritable(filepath.Join(dir, "open/new")); got != filepath.Join(dir, "open") {
		t.Errorf("of another user: %q", got)
	}
}
