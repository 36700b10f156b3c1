package bwrap

import "github.com/sbxhost/sbxhost/shared"

// opKind is one way in which bubblewrap changes the view.
type opKind uint8

const (
	opROBind    opKind = iota
	opBind             // writable
	opTmpfs            // Perms and Size apply
	opSymlink          // Source is the link's text
	opProc             // a fresh procfs
	opDev              // a fresh, small /dev
	opDir              // an empty directory
	opFile             // a copy of Source, made at the start
	opRemountRO        // what is mounted at Dest becomes read-only, not what is beneath
	opMaskFile         // hides a file
	opMaskDir          // hides a directory
	opOverlay          // Source is what lies beneath; a session's holder alone has them
	opHome             // memory that lasts as long as the session's holder
	opPin              // Dest, of which Source is the host's path, bound onto itself
	opHide             // Dest is to be hidden, and is not there; no plan has it
	opTree             // Source is a tree that was prepared, with devices in it
)

func (k opKind) String() string {
	return [...]string{"ro-bind", "bind", "tmpfs", "symlink", "proc", "dev", "dir", "file", "remount-ro", "mask", "mask", "overlay", "home", "pin", "hide", "dev-bind"}[k]
}

// An op is one step that makes the view. The order counts.
type op struct {
	Kind   opKind
	Source string
	Dest   string
	Perms  uint32
	Size   uint64
	Ignore bool   // what is to be hidden may be missing
	Asked  bool   // by the Spec: other commands may be able to reach Dest, or Source
	Open   bool   // Source is opened first and mounted by descriptor, where bubblewrap can
	Why    string // the attribute or rule that asked for it
}

func (o op) hides() bool { return o.Kind == opHide || o.Kind == opMaskFile || o.Kind == opMaskDir }

// planned is the list for people.
func planned(ops []op) []shared.PlannedMount {
	mounts := make([]shared.PlannedMount, len(ops))
	for i, o := range ops {
		mounts[i] = shared.PlannedMount{Op: o.Kind.String(), Source: o.Source, Destination: o.Dest, Why: o.Why}
	}
	return mounts
}
