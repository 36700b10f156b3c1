package native

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/engine/nsengine"
	"github.com/sbxhost/sbxhost/shared"
)

// What a machine refuses is of no use; a shortage, and what is about a path, is not.
func TestDiagnose(t *testing.T) {
	t.Parallel()
	failed := func(call string, errno syscall.Errno) error {
		return fmt.Errorf("%w: %w", holder.ErrUnavailable, &holder.MountError{Index: -1, Call: call, Reason: errno.Error(), Errno: errno})
	}
	clone := holder.CallClone
	for name, c := range map[string]struct {
		err  error
		k    nsengine.Kernel
		kind error
		says string
	}{
		"switched off":         {failed(clone, syscall.ENOSPC), nsengine.Kernel{MaxNamespaces: "0"}, shared.ErrUnusable, "max_user_namespaces is 0"},
		"used up":              {failed(clone, syscall.ENOSPC), nsengine.Kernel{MaxNamespaces: "100"}, shared.ErrUnavailable, "allows no more namespaces"},
		"no processes":         {failed(clone, syscall.EAGAIN), nsengine.Kernel{MaxNamespaces: "0"}, shared.ErrUnavailable, "unavailable"},
		"no memory":            {failed("fsopen tmpfs", syscall.ENOMEM), nsengine.Kernel{}, shared.ErrUnavailable, "memory"},
		"refused to users":     {failed(clone, syscall.EPERM), nsengine.Kernel{UnprivilegedClone: "0"}, shared.ErrUnusable, "unprivileged_userns_clone is 0"},
		"root may":             {failed(clone, syscall.EPERM), nsengine.Kernel{UnprivilegedClone: "0", Root: true}, shared.ErrUnusable, "refuses new namespaces"},
		"AppArmor":             {failed("fsopen tmpfs", syscall.EPERM), nsengine.Kernel{AppArmorRestrict: "1"}, shared.ErrUnusable, "AppArmor restricts"},
		"a container":          {failed(clone, syscall.EPERM), nsengine.Kernel{AppArmorRestrict: "1", Container: true}, shared.ErrUnusable, "container around"},
		"a hidden /proc":       {failed("fsconfig proc", syscall.EPERM), nsengine.Kernel{Container: true}, shared.ErrUnusable, "as in containers"},
		"an initial ramdisk":   {failed("pivot_root", syscall.EINVAL), nsengine.Kernel{}, shared.ErrUnusable, "initial ramdisk"},
		"an old kernel":        {failed("mount_setattr", syscall.ENOSYS), nsengine.Kernel{}, shared.ErrUnusable, "lacks a call"},
		"a full disk":          {failed("opening the lock", syscall.ENOSPC), nsengine.Kernel{MaxNamespaces: "0"}, shared.ErrUnavailable, "opening the lock"},
		"a path that is shut":  {failed("opening the session's directory", syscall.EACCES), nsengine.Kernel{}, shared.ErrUnavailable, "session's directory"},
		"another user's":       {fmt.Errorf("%w: %w", holder.ErrUnavailable, errors.New("the session's holder is another user's")), nsengine.Kernel{MaxNamespaces: "0"}, shared.ErrUnavailable, "another user's"},
		"in use":               {fmt.Errorf("%w: %w", holder.ErrUnavailable, holder.ErrOther), nsengine.Kernel{MaxNamespaces: "0"}, shared.ErrUnavailable, "use another session"},
		"a holder that died":   {holder.ErrLost, nsengine.Kernel{MaxNamespaces: "0"}, shared.ErrBroken, "died"},
		"an error with a name": {&shared.Error{Kind: shared.ErrInvalidSpec, Message: "named"}, nsengine.Kernel{MaxNamespaces: "0"}, shared.ErrInvalidSpec, "named"},
	} {
		err := diagnose(c.err, c.k)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if c.kind != shared.ErrUnusable && errors.Is(err, shared.ErrUnusable) {
			t.Errorf("%s: something would fall back for it: %v", name, err)
		}
		if e, ok := errors.AsType[*shared.Error](err); c.kind == shared.ErrUnusable && (!ok || e.Hint == "") {
			t.Errorf("%s: no hint: %v", name, err)
		}
	}
}
