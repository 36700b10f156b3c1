//go:build unix

package sessiondir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// RemoveTree is hostpath.RemoveTree, but that files of users that the caller's namespaces
// are mapped to go by way of such a namespace. What is left after that the error names, with
// who can remove it.
func RemoveTree(ctx context.Context, base, name string) error {
	err := hostpath.RemoveTree(ctx, base, name)
	if !errors.Is(err, hostpath.ErrNotRemoved) {
		return err
	}
	path := filepath.Join(base, name)
	if os.Geteuid() != 0 && removeMapped(ctx, path) == nil {
		return nil
	}
	how := "remove it as root: rm -r"
	if os.Geteuid() == 0 {
		how = "it may be a mount (findmnt: umount it) or immutable (lsattr: chattr -R -i), then rm -r"
	}
	return fmt.Errorf("%w; %s %q", err, how, path)
}
