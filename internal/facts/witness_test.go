//go:build unix

package facts

import (
	"os"
	"path/filepath"
	"testing"
)

// A HOME elsewhere, as of sudo, hides no home from this.
func TestWhyNotProposed(t *testing.T) {
	t.Parallel()
	m := &Machine{Config: Config{Caller: Caller{UID: os.Getuid(), Home: "/none/home"}}}
	homes := (&Machine{Config: Config{Caller: Caller{UID: os.Getuid()}}}).homes()
	own := homes[len(homes)-1]
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
