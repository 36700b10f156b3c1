package seatbelt

import (
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// planned stands in a plan for what is made at the start of a command.
func planned(spec *shared.Spec) places {
	at := places{scratch: "/<scratch>", temp: "/<scratch>/tmp"}
	if spec.Home != "" {
		at.home = "/<scratch>/home"
	}
	if spec.Network.Mode == shared.NetworkNames {
		at.proxy = plannedPort
	}
	return at
}

// plannedPort is where a plan has the proxy: each command has its own.
const plannedPort = 65535

// plan says what launch would do, on any system.
func (e *engine) plan(spec *shared.Spec, cmd *shared.Command) (shared.Plan, error) {
	p, err := newPolicy(spec, cmd)
	if err != nil {
		return shared.Plan{}, err
	}
	at := planned(spec)
	if _, err := environment(p, cmd.Env, at); err != nil {
		return shared.Plan{}, err
	}
	profile, err := compile(p, at)
	if err != nil {
		return shared.Plan{}, err
	}
	return shared.Plan{
		Argv:      e.argv("<profile>", profile, cmd.Args[0], cmd.Args[1:]),
		Mounts:    p.steps(at),
		Documents: []shared.PlanDocument{{Name: "profile", Text: profile.text}, {Name: "parameters", Text: profile.list()}},
		Notes:     notes(spec),
	}, nil
}

// list is the parameters for people, who could take a quote or a newline in one
// for the next.
func (p *profile) list() string {
	var b strings.Builder
	for _, parameter := range p.parameters {
		b.WriteString(parameter.name + " = " + quote(parameter.value) + "\n")
	}
	return b.String()
}

func (p *policy) steps(at places) (steps []shared.PlannedMount) {
	step := func(op, destination, why string) {
		steps = append(steps, shared.PlannedMount{Op: op, Destination: destination, Why: why})
	}
	if p.spec.Filesystem == shared.FilesystemHost {
		step("read", "/", "filesystem")
	} else {
		step("read", "<minimal>", "filesystem")
	}
	for _, h := range p.hiddenAround {
		step("hide", h.path, h.origin)
	}
	for _, a := range p.areas {
		if a.writable {
			step("write", a.path, a.origin)
		} else {
			step("read", a.path, a.origin)
		}
	}
	step("write", at.temp, "TMPDIR")
	if at.home != "" {
		step("write", at.home, "HOME")
	}
	for _, c := range p.protected {
		step("protect", c.place(), c.origin)
	}
	for _, c := range p.hidden {
		step("hide", c.place(), c.origin)
	}
	return steps
}

// place is what is hidden or protected, for people.
func (c restriction) place() string {
	if c.path != "" {
		return c.path
	}
	var list []string
	for _, q := range c.patterns {
		list = append(list, q.regex(true))
	}
	return strings.Join(list, " ")
}
