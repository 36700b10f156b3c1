//go:build !linux && !darwin

package approvals

import (
	"errors"
	"fmt"
)

// Now returns the present moment. This system has no known boot id, so no approval can have a time
// limit.
func Now() (BootTime, error) {
	return BootTime{}, fmt.Errorf("this boot's id: %w", errors.ErrUnsupported)
}

// LoginSession names the session of this process.
func LoginSession() (string, error) { return "", ErrNoSession }
