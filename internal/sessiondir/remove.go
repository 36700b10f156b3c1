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

// RemoveTree is hostpath.RemoveTree that also removes files of users that the caller's namespaces
// map, in such a namespace. The error names what is left, and who can remove it.
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
