package docker

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/moby/moby/client/pkg/versions"

	"github.com/sbxhost/sbxhost/shared"
)

// podmanOldest is the version below which nobody has tried what Podman does with
// what it is asked for.
const podmanOldest = "4.3.0"

// podmanTmpfs has Podman give a tmpfs to the container's user, whose numbers it
// takes no other way, and leave out what the image has there.
const podmanTmpfs = "U,notmpcopyup"

// forPodman says in Podman's words what it would not take, or pass over in
// silence, in Docker's.
func (p *plan) forPodman() error {
	if err := p.podmanTakes(); err != nil {
		return err
	}
	// Its own lists of what to hide and protect stay in force; these it ignores.
	for _, op := range p.ops {
		if op.Op == "mask" {
			p.host.SecurityOpt = append(p.host.SecurityOpt, "mask="+op.Destination)
		}
	}
	p.host.MaskedPaths, p.host.ReadonlyPaths = nil, nil
	if _, taken := p.host.Tmpfs["/run"]; p.host.ReadonlyRootfs && !taken && !slices.ContainsFunc(p.ops, at("/run")) {
		// Podman would otherwise make it writable, without a limit of size.
		p.host.Tmpfs["/run"] = "ro,noexec,nosuid,nodev,size=64k,mode=0755,notmpcopyup"
		p.ops = append(p.ops, shared.PlannedMount{Op: "tmpfs", Destination: "/run", Why: "the engine"})
	}
	return nil
}

func at(destination string) func(shared.PlannedMount) bool {
	return func(op shared.PlannedMount) bool { return op.Destination == destination }
}

// podmanTakes refuses names that Podman would read as more than one: it makes
// words of its command line of them, which it then takes apart.
func (p *plan) podmanTakes() error {
	refuse := func(origin, name, bad string) error {
		if !strings.ContainsAny(name, bad) {
			return nil
		}
		return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: origin,
			Message: fmt.Sprintf("Podman takes no path with any of %q here, as %q has", bad, name), Hint: "rename it, or use Docker or engine bwrap"}
	}
	for _, op := range p.ops {
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

// podmanVersion gives the version of Podman, empty for another daemon, or refuses
// it, by the components that a daemon says it has.
func podmanVersion(components map[string]string) (string, error) {
	for _, name := range slices.Sorted(maps.Keys(components)) {
		if !strings.Contains(strings.ToLower(name), "podman") {
			continue
		}
		version := components[name]
		if number, _, _ := strings.Cut(version, "-"); number == "" || versions.LessThan(number, podmanOldest) {
			return "", &shared.Error{Kind: shared.ErrUnavailable,
				Message: fmt.Sprintf("the daemon is Podman %s, of which it is not known that it holds all that this engine asks for", version),
				Hint:    "use Podman " + podmanOldest + " or later, or Docker"}
		}
		return version, nil
	}
	return "", nil
}
