//go:build unix

package facts

import (
	"errors"
	"os"

	"github.com/sbxhost/sbxhost/internal/view"
)

// device describes an element of a definition's devices.
func device(p string) view.Device {
	way := Follow(p)
	info, err := os.Lstat(way.End)
	switch {
	case way.Err != nil:
		err = way.Err
	case err == nil && info.Mode()&os.ModeCharDevice == 0:
		err = errors.New("it is not a character device")
	}
	return view.Device{Path: way.End, Err: err}
}
