package seatbelt

import (
	"fmt"
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
		at.proxy = 65535 // each command has its own
	}
	return at
}

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
	for n, path := range p.parameters {
		fmt.Fprintf(&b, "P%d = %q\n", n, path)
	}
	return b.String()
}

// notes are what is always true here.
func notes(spec *shared.Spec) (list []string) {
	if spec.Home != "" {
		list = append(list, fmt.Sprintf("macOS has no mounts: %s is hidden, and HOME is a private directory with links to the binds in it", spec.Home))
	}
	switch spec.Network.Mode {
	case shared.NetworkNone:
		list = append(list, "without the network there is no loopback either: macOS cannot give a command its own")
	case shared.NetworkNames:
		list = append(list, "a proxy, in HTTP_PROXY, HTTPS_PROXY and ALL_PROXY, reaches the listed names; each command has its own port and password for it",
			"there is no loopback: macOS cannot give a command its own",
			"trustd is out of reach, because it connects to servers that certificates name: programs that verify certificates with macOS itself fail")
	}
	return append(list, "TMPDIR is a private directory; /tmp belongs to the machine and is hidden",
		"a process that leaves the command's process group outlives it, still confined")
}
