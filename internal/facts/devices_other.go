//go:build unix && !linux

package facts

import (
	"errors"

	"github.com/sbxhost/sbxhost/internal/view"
)

// device knows no devices of this system: none was tested.
func device(p string) view.Device { return view.Device{Path: p, Err: errors.ErrUnsupported} }
