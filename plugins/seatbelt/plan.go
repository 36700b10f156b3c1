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
