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

// maxTraced is how many calls the package looks up.
const maxTraced = 4096

// traced returns the failed calls of a traced command that the sandbox explains. Programs also look
// for many files that exist nowhere; these are not reported.
func (f *Failure) traced() (list []Denial) {
	for i := range f.Traced[:min(len(f.Traced), maxTraced)] {
		d := f.ofTraced(&f.Traced[i])
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
	case port == 53 && f.Spec.Network.Mode == shared.NetworkNone && f.hostIn("") != "": // of a nameserver
		return f.noNetwork(f.hostIn(""), f.portOf(f.hostIn(""), ""))
	case f.Spec.Network.Mode != shared.NetworkNames:
		d := f.noNetwork(name, uint16(port))
		d.Host = c.Target
		return d
	case notAddr == nil && egress.Fake(addr): // an address of the gate, which reports its name itself
		return Denial{}
	}
	return f.unlisted(name, uint16(port))
}

// causeOf returns the cause for the error of a call with a path.
func causeOf(name string) cause {
	for _, c := range [...]cause{unwritable, refused} {
		if slices.Contains(phrases[c], name) {
			return c
		}
	}
	return absent
}
