//go:build unix && !linux

package sessiondir

import (
	"context"
	"errors"
)

// removeMapped has nothing to do with: there are no user namespaces.
func removeMapped(context.Context, string) error { return errors.ErrUnsupported }
