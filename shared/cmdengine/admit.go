package cmdengine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/sbxhost/sbxhost/shared"
)

// admit refuses what the engine cannot enforce. A host refuses it too, but the engine does not
// depend on that.
func admit(info *shared.Info, spec *shared.Spec) error {
	if !spec.Unconfined && info.Features.Has(shared.FeatureUnconfined) {
		return &shared.Error{
			Kind: shared.ErrUnsupported, Attribute: "engine",
			Message: fmt.Sprintf("engine %q runs commands without any isolation and was asked to isolate", info.Name),
			Hint:    "use an engine that isolates, or have the host's policy allow commands without isolation",
		}
	}
	if err := shared.Refused(info.Name, spec.Without(info.Features)); err != nil {
		return err
	}
	return admitOptions(info, spec.Options)
}

// admitOptions refuses names that the schema lacks, which Go's decoders would ignore. The engine
// checks types and values.
func admitOptions(info *shared.Info, options json.RawMessage) error {
	if len(options) == 0 {
		return nil
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(options, &given); err != nil {
		return invalid("config", "", "is not a JSON object")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(info.Options.Attributes, func(a shared.OptionAttribute) bool { return a.Name == name }) {
			return invalid("config."+name, "", "the engine has no option %q", name)
		}
	}
	return nil
}
