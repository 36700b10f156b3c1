package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// podmanTmpfs makes Podman give a tmpfs to the container's user, for which it has no other option,
// without the image's files.
const podmanTmpfs = "U,notmpcopyup"

// forPodman translates what Podman would refuse, or silently ignore, in Docker's form.
func (p *Plan) forPodman() error {
	if err := p.podmanTakes(); err != nil {
		return err
	}
	// Podman's own lists of hidden and protected paths stay in force; it ignores these.
	for _, op := range p.Ops {
		if op.Op == "mask" {
			p.Host.SecurityOpt = append(p.Host.SecurityOpt, "mask="+op.Destination)
		}
	}
	p.Host.MaskedPaths, p.Host.ReadonlyPaths = nil, nil
	if _, taken := p.Host.Tmpfs["/run"]; p.Host.ReadonlyRootfs && !taken && !slices.ContainsFunc(p.Ops, at("/run")) {
		// Podman would otherwise make it writable, without a limit of size.
		p.Host.Tmpfs["/run"] = "ro,noexec,nosuid,nodev,size=64k,mode=0755,notmpcopyup"
		p.Ops = append(p.Ops, shared.PlannedMount{Op: "tmpfs", Destination: "/run", Why: "the engine"})
	}
	return nil
}

func at(destination string) func(shared.PlannedMount) bool {
	return func(op shared.PlannedMount) bool { return op.Destination == destination }
}

// podmanTakes refuses names that Podman would read as several: it makes words of its command line
// of them, and splits those.
func (p *Plan) podmanTakes() error {
	refuse := func(origin, name, bad string) error {
		if !strings.ContainsAny(name, bad) {
			return nil
		}
		return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: origin,
			Message: fmt.Sprintf("Podman accepts no path with any of %q here, as in %q", bad, name), Hint: "rename it, or use Docker or engine bwrap"}
	}
	for _, op := range p.Ops {
		bad := ",\"\r\n"
		if op.Op == "mask" || op.Op == "tmpfs" {
			bad = ":,\"\r\n"
		}
		for _, name := range []string{op.Source, op.Destination} {
			if err := refuse(op.Why, name, bad); err != nil {
				return err
			}
		}
	}
	return nil
}
