package denial

import (
	"net/netip"
	"path"
	"slices"

	"github.com/sbxhost/sbxhost/shared"
)

// maxTraced bounds the calls that are looked up.
const maxTraced = 4096

// traced is what a traced command failed at for its sandbox's sake. Programs look for much
// that is nowhere, of which nothing is told.
func (f *Failure) traced() (list []Denial) {
	for i := range f.Traced[:min(len(f.Traced), maxTraced)] {
		d := f.ofTraced(&f.Traced[i])
		if d.Reason == "" {
			continue
		}
		d.Guess = true // that it failed of this one is not known
		if f.Traced[i].Wants == "execute" && d.Operation == "read" {
			d.Operation = "execute"
		}
		list = append(list, d)
	}
	return list
}

func (f *Failure) ofTraced(c *shared.TracedCall) Denial {
	if path.IsAbs(c.Target) {
		if p := path.Clean(c.Target); p != "/" {
			return f.ofPath(causeOf(c.Error), p)
		}
		return Denial{}
	}
	to, err := netip.ParseAddrPort(c.Target)
	switch {
	case err != nil || !slices.Contains([]string{"ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH"}, c.Error):
		return Denial{}
	case to.Addr().IsLoopback():
		return f.hostPort(to.Port())
	}
	return f.noNetwork(c.Target, "")
}

// causeOf is what an error of a call with a path tells.
func causeOf(name string) cause {
	switch name {
	case "EROFS", "EBUSY", "EXDEV":
		return unwritable
	case "EACCES", "EPERM":
		return refused
	}
	return absent
}
