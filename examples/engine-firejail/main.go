// Sbxhost-engine-firejail runs commands in a firejail. What that holds back is
// useful, and less than a sandbox: see the README.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
)

const launcher = "/usr/bin/firejail"

func main() { shared.Serve(engine()) }

func engine() shared.Engine {
	return cmdengine.New(cmdengine.Config{
		Init: true, // firejail's own status cannot tell a signal from a code
		Info: shared.Info{
			Name: "firejail", Version: "0.1.0", Doc: "runs commands in a firejail, which is less than isolation",
			Features: shared.Features{shared.FeatureUnconfined, shared.FeatureTTY},
			Options: shared.OptionSchema{Attributes: []shared.OptionAttribute{
				{Name: "seccomp", Type: shared.OptionBool, Doc: "refuse the system calls of firejail's list", Default: json.RawMessage("true")},
				{Name: "blacklist", Type: shared.OptionStringList, Doc: "absolute paths whose contents are hidden", Default: json.RawMessage("[]")},
			}},
		},
		Probe: cmdengine.Trial("install firejail, setuid root", nil, launcher, "--noprofile", "--quiet", "--net=none", "--seccomp", "--", "/bin/true"),
		// It looks at the mount that was made last, and now and then sees another one.
		Diagnose: cmdengine.Again("last mount name:"),
		Open:     func(_ context.Context, spec *shared.Spec) error { _, err := commandLine(spec); return err },
		Launch: func(spec *shared.Spec, _ *shared.Command) (*exec.Cmd, error) {
			args, err := commandLine(spec)
			return &exec.Cmd{Path: launcher, Args: append(args, "--")}, err
		},
	})
}

// commandLine are firejail's command line up to the command.
func commandLine(spec *shared.Spec) ([]string, error) {
	args := []string{"firejail", "--noprofile", "--quiet", "--keep-fd=all", "--nonewprivs", "--caps.drop=all", "--keep-var-tmp", "--allusers"}
	if spec.Network.Mode == shared.NetworkNone {
		args = append(args, "--net=none")
	}
	var options struct {
		Seccomp   *bool
		Blacklist []string
	}
	if err := json.Unmarshal(spec.Options, &options); len(spec.Options) > 0 && err != nil {
		return nil, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config", Message: err.Error()}
	}
	if options.Seccomp == nil || *options.Seccomp {
		args = append(args, "--seccomp")
	}
	for _, path := range options.Blacklist {
		if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "\\&!?\"'<>%^(){};,*[]$~\n\t") {
			return nil, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config.blacklist", Message: fmt.Sprintf("firejail takes no path such as %q", path)}
		}
		args = append(args, "--blacklist="+path)
	}
	return args, nil
}
