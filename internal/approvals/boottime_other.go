//go:build !linux && !darwin

package approvals

import (
	"errors"
	"fmt"
)

// Now gives the present moment. No id of this boot is known here, so that nothing
// is approved for a time.
func Now() (BootTime, error) {
	return BootTime{}, fmt.Errorf("this boot's id: %w", errors.ErrUnsupported)
}

// LoginSession names the session that this process belongs to.
func LoginSession() (string, error) { return "", ErrNoSession }
