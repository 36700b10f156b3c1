package denial

import (
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/internal/egress"
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
	colon := max(strings.LastIndexByte(c.Target, ':'), 0)
	name := strings.Trim(c.Target[:colon], "[]")
	port, notPort := strconv.ParseUint(strings.TrimPrefix(c.Target[colon:], ":"), 10, 16)
	if name == "" || notPort != nil || !slices.Contains([]string{"ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH"}, c.Error) {
		return Denial{}
	}
	addr, notAddr := netip.ParseAddr(name)
	switch {
	case name == "localhost" || notAddr == nil && addr.IsLoopback():
		return f.hostPort(uint16(port))
	case f.Spec.Network.Mode != shared.NetworkNames:
		d := f.noNetwork(name, uint16(port), "")
		d.Host = c.Target
		return d
	case notAddr == nil && egress.Fake(addr): // that of a name, which the network's gate tells
		return Denial{}
	}
	return f.unlisted(name, uint16(port))
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
