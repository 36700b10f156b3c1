//go:build unix

package sessiondir

import (
	"context"
	"fmt"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// Size is the space of the session on its file system, in bytes, as du measures it; -1 if it is
// unknown, as without du. Unknown commands made the tree, and some may be changing it: du follows no
// symlink, enters no other file system, and goes to any depth.
func (s *Info) Size(ctx context.Context) (int64, error) {
	du, _, err := new(hostpath.Programs).Find("du")
	if err != nil {
		return -1, nil
	}
	// It fails for what it may not read, or what goes meanwhile, and counts the rest.
	text, _ := du.Command(ctx, "-s", "-k", "-x", "--", s.Dir).Output()
	var kib int64
	if _, err := fmt.Sscan(string(text), &kib); err != nil {
		return -1, context.Cause(ctx)
	}
	return kib << 10, context.Cause(ctx)
}
