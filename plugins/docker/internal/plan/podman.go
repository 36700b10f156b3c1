package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// podmanTmpfs has Podman give a tmpfs to the container's user, whose numbers it
// takes no other way, and leave out what the image has there.
const podmanTmpfs = "U,notmpcopyup"

// forPodman says in Podman's words what it would not take, or pass over in
// silence, in Docker's.
func (p *Plan) forPodman() error {
	if err := p.podmanTakes(); err != nil {
		return err
	}
	// Its own lists of what to hide and protect stay in force; these it ignores.
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

// podmanTakes refuses names that Podman would read as more than one: it makes
// words of its command line of them, which it then takes apart.
func (p *Plan) podmanTakes() error {
	refuse := func(origin, name, bad string) error {
		if !strings.ContainsAny(name, bad) {
			return nil
		}
		return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: origin,
			Message: fmt.Sprintf("Podman takes no path with any of %q here, as %q has", bad, name), Hint: "rename it, or use Docker or engine bwrap"}
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
