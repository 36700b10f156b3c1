//go:build !unix

package approvals

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Here a file's mode does not say who else can write it.
var errNoStore = fmt.Errorf("approvals and trust are not kept on this system: %w", errors.ErrUnsupported)

func (d document) read() ([]byte, error) { return nil, errNoStore }

func (d document) locked(context.Context, func(dir *os.File) error) error { return errNoStore }

func (d document) readIn(*os.File) ([]byte, error) { return nil, errNoStore }

func (d document) replace(*os.File, []byte) error { return errNoStore }
