package native

import (
	"errors"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/engine/nsengine"
	"github.com/sbxhost/sbxhost/shared"
)

const (
	fixAppArmor = "as root: load an AppArmor profile that gives this program user namespaces; `sbxhost doctor` prints it"
	fixKernel   = "use Linux 5.12 or later, or engine = \"bwrap\""
)

// diagnose explains why there is no holder, or no sandbox in one. Only what this machine lacks or
// refuses, and would again, is ErrUnusable: everything else may be a shortage, which a command in
// another sandbox can cause. It is pure.
func diagnose(err error, k nsengine.Kernel) error {
	if _, ok := errors.AsType[*shared.Error](err); ok {
		return err
	}
	e := &shared.Error{Kind: shared.ErrUnavailable, Message: err.Error()}
	if errors.Is(err, holder.ErrLost) {
		e.Kind = shared.ErrBroken
		return e
	}
	if errors.Is(err, holder.ErrOther) {
		e.Hint = "wait until that ends, or use another session; sbxhost sessions list says by whom one is used"
		return e
	}
	failed, _ := errors.AsType[*holder.MountError](err)
	if failed == nil || !failed.OfMachine() {
		return e
	}
	unusable := func(message, fix string) {
		e.Kind, e.Message, e.Hint = shared.ErrUnusable, message, fix
	}
	switch failed.Errno {
	case syscall.ENOSPC:
		// For a clone it is the limit of namespaces. Only the administrator sets it to 0.
		if failed.Call == holder.CallClone && k.MaxNamespaces == "0" {
			unusable(k.Refused(fixAppArmor))
		} else if failed.Call == holder.CallClone {
			e.Message, e.Hint = "the kernel allows no more namespaces", nsengine.FixMaxNamespaces
		}
	case syscall.ENOSYS:
		unusable("this kernel lacks a call that the engine needs: "+err.Error(), fixKernel)
	case syscall.EPERM, syscall.EACCES, syscall.EINVAL, syscall.EROFS:
		switch {
		case strings.HasSuffix(failed.Call, " proc"):
			unusable(k.NoFreshProc())
		case failed.Call == "pivot_root":
			unusable(nsengine.NoPivot, nsengine.FixNoPivot)
		default:
			reason, fix := k.Refused(fixAppArmor)
			unusable(reason+" ("+err.Error()+")", fix)
		}
	}
	return e
}
