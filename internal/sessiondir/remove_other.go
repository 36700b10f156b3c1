//go:build unix && !linux

package sessiondir

import (
	"context"
	"errors"
)

// removeMapped fails: there are no user namespaces.
func removeMapped(context.Context, string) error { return errors.ErrUnsupported }
