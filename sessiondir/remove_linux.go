package sessiondir

import (
	"context"
	"os/exec"
)

// removeMapped removes a tree with files of users that this one's user namespaces
// are mapped to (/etc/subuid), as rootless containers leave them: only in such a
// namespace has this user rights to them. It needs newuidmap and an unshare that
// knows of it, and the tree must be out of every other process's reach.
func removeMapped(ctx context.Context, path string) error {
	// By their paths and with an environment of ours: the caller's PATH is not
	// asked, which a workspace may have put something in.
	cmd := exec.CommandContext(ctx, "/usr/bin/unshare", "--user", "--map-root-user", "--map-auto", "--", "/bin/rm", "-rf", "--one-file-system", "--", path)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	cmd.Dir = "/"
	return cmd.Run()
}
