package trace

import (
	"os"
	"testing"
)

// A thread of the command can unmap the address of a call that another thread has just made.
func TestAddressThatIsUnmapped(t *testing.T) {
	t.Parallel()
	if got := socketAddress(os.Getpid(), 8, 16); got != "" {
		t.Errorf("%q", got)
	}
}
