package mountplan

import "github.com/sbxhost/sbxhost/shared"

// Kind is one way in which a step changes the view.
type Kind uint8

const (
	ROBind          Kind = iota
	Bind                 // writable
	Tmpfs                // Perms and Size apply
	Symlink              // Source is the link's text
	Proc                 // a fresh procfs
	Dev                  // a fresh, small /dev
	Dir                  // an empty directory
	File                 // a copy of Source, made at the start
	RemountRO            // what is mounted at Dest becomes read-only, not what is beneath
	MaskFile             // hides a file
	MaskDir              // hides a directory
	Overlay              // Source is what lies beneath; a session's holder alone has them
	Home                 // memory that lasts as long as the session's holder
	Pin                  // Dest, of which Source is the host's path, bound onto itself
	Hide                 // Dest is to be hidden, and is not there; no plan has it
	Text                 // a file of the bytes of Source; Perms apply
	Device               // the device Source, to be used
	MountpointTmpfs      // memory for mount points alone, read-only once they are made; Perms and Size apply
)

func (k Kind) String() string {
	return [...]string{"ro-bind", "bind", "tmpfs", "symlink", "proc", "dev", "dir", "file", "remount-ro", "mask", "mask", "overlay", "home", "pin", "hide", "text", "device", "tmpfs"}[k]
}

// An op is one step that makes the view. The order counts.
type Op struct {
	Kind     Kind
	Source   string
	Dest     string
	Perms    uint32
	Size     uint64
	Ignore   bool   // what is to be hidden may be missing
	FromSpec bool   // by the Spec: other commands may be able to reach Dest, or Source
	Open     bool   // Source is opened first and mounted by descriptor, where bubblewrap can
	Why      string // the attribute or rule that asked for it
}

// Writable names what commands can write to, where the root directory is the host's, as it is in other
// sandboxes. It names nothing where that is the sandbox's own.
func Writable(ops []Op) (list []string) {
	host := false
	for _, o := range ops {
		switch o.Kind {
		case ROBind:
			host = host || o.Dest == "/"
		case Bind, Tmpfs, Proc, Dev, Overlay, Home:
			list = append(list, o.Dest)
		}
	}
	if !host {
		return nil
	}
	return list
}

func (o Op) hides() bool { return o.Kind == Hide || o.Kind == MaskFile || o.Kind == MaskDir }

// Planned is the list for people.
func Planned(ops []Op) []shared.PlannedMount {
	mounts := make([]shared.PlannedMount, len(ops))
	for i, o := range ops {
		mounts[i] = shared.PlannedMount{Op: o.Kind.String(), Source: o.Source, Destination: o.Dest, Why: o.Why}
		if o.Kind == Text {
			mounts[i].Source = ""
		}
	}
	return mounts
}
