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
	RemountRO            // what is mounted at Dest becomes read-only, but nothing beneath
	MaskFile             // hides a file
	MaskDir              // hides a directory
	Overlay              // an overlay over Source; needs a session's holder
	Home                 // memory until the end of the session's holder
	Pin                  // Dest, whose host path is Source, bound onto itself
	Hide                 // Dest must be hidden, but does not exist; no plan has it
	Text                 // a file with the bytes of Source; Perms apply
	Device               // the device Source, usable
	MountpointTmpfs      // memory only for mount points, read-only after they are made; Perms and Size apply
)

func (k Kind) String() string {
	return [...]string{"ro-bind", "bind", "tmpfs", "symlink", "proc", "dev", "dir", "file", "remount-ro", "mask", "mask", "overlay", "home", "pin", "hide", "text", "device", "tmpfs"}[k]
}

// An Op is one step of the view. The order matters.
type Op struct {
	Kind     Kind
	Source   string
	Dest     string
	Perms    uint32
	Size     uint64
	Ignore   bool   // a path to hide may be missing
	FromSpec bool   // from the Spec: other commands may be able to change Dest or Source
	Open     bool   // open Source first and mount the descriptor, if bubblewrap can
	Why      string // the attribute or rule that asked for it
}

// Writable lists what commands can write to, if the root directory is the host's, as in other
// sandboxes. It is empty if the root is the sandbox's own.
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
