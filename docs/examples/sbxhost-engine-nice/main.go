// Sbxhost-engine-nice is an engine that runs commands at a low priority. That
// isolates nothing, and it says so.
package main

import (
	"context"
	"encoding/json"
	"os/exec"
	"strconv"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
)

type options struct {
	Level int `json:"level"`
}

func level(spec *shared.Spec) (int, error) {
	o := options{Level: 19}
	if len(spec.Options) > 0 {
		if err := json.Unmarshal(spec.Options, &o); err != nil {
			return 0, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config", Message: err.Error()}
		}
	}
	if o.Level < 0 || o.Level > 19 {
		return 0, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config.level",
			Message: "is not from 0 to 19", Hint: "19 is the lowest priority"}
	}
	return o.Level, nil
}

func main() { shared.Serve(engine()) }

func engine() shared.Engine {
	return cmdengine.New(cmdengine.Config{
		Info: shared.Info{
			Name: "nice", Version: "1.0.0", Doc: "runs commands at a low priority, without isolation",
			Features: shared.Features{shared.FeatureUnconfined, shared.FeatureTTY},
			Options: shared.OptionSchema{Attributes: []shared.OptionAttribute{
				{Name: "level", Type: shared.OptionNumber, Doc: "niceness, 0 to 19", Default: json.RawMessage("19")},
			}},
		},
		Open: func(_ context.Context, spec *shared.Spec) error { _, err := level(spec); return err },
		Launch: func(spec *shared.Spec, cmd *shared.Command) (*exec.Cmd, error) {
			n, err := level(spec)
			if err != nil {
				return nil, err
			}
			path, err := cmdengine.LookPath(cmd.Args[0], cmd.Dir, cmd.Env)
			return &exec.Cmd{Path: "/usr/bin/nice", Env: cmd.Env, Dir: cmd.Dir,
				Args: append([]string{"nice", "-n", strconv.Itoa(n), "--", path}, cmd.Args[1:]...)}, err
		},
	})
}
