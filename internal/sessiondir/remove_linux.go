package sessiondir

import (
	"context"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// removeMapped removes a tree with files of users that this user's namespaces map (/etc/subuid), as
// rootless containers leave them: only in such a namespace has this user rights to them. It needs
// newuidmap and an unshare that knows it, and no other process may reach the tree.
func removeMapped(ctx context.Context, path string) error {
	unshare, err := hostpath.Installed("/usr/bin/unshare")
	if err != nil {
		return err
	}
	return unshare.Command(ctx, "--user", "--map-root-user", "--map-auto", "--", "/bin/rm", "-rf", "--one-file-system", "--", path).Run()
}
