package seatbelt

import (
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// planned are a plan's names for what is made at the start of a command.
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

// plannedPort is the proxy's port in a plan: each command has its own.
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

// list shows the parameters to people; quotes and newlines in them must not look like another one.
func (p *profile) list() string {
	var b strings.Builder
	for _, parameter := range p.parameters {
		b.WriteString(parameter.name + " = " + quote(parameter.value) + "\n")
	}
	return b.String()
}
