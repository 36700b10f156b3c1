package cmdengine

import (
	"bytes"
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
	takesOptions := len(info.Options.Attributes)+len(info.Options.Blocks) > 0
	if o := bytes.TrimSpace(spec.Options); !takesOptions && len(o) > 0 && string(o) != "{}" && string(o) != "null" {
		return &shared.Error{
			Kind: shared.ErrUnsupported, Attribute: "config",
			Message: fmt.Sprintf("engine %q has no options", info.Name),
		}
	}
	return admitOptions(info, spec.Options)
}

// admitOptions refuses names that the schema lacks, which Go's decoders would ignore. The engine
// checks types and values.
func admitOptions(info *shared.Info, options json.RawMessage) error {
	if len(options) == 0 {
		return nil
	}
	blocks := map[string][]shared.OptionAttribute{}
	for _, b := range info.Options.Blocks {
		blocks[b.Name] = b.Attributes
	}
	return admitNames("config", options, info.Options.Attributes, blocks)
}

func admitNames(path string, object json.RawMessage, attributes []shared.OptionAttribute, blocks map[string][]shared.OptionAttribute) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(object, &given); err != nil {
		return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: path, Message: "is not a JSON object"}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if inner, ok := blocks[name]; ok {
			if err := admitNames(path+"."+name, given[name], inner, nil); err != nil {
				return err
			}
			continue
		}
		if !slices.ContainsFunc(attributes, func(a shared.OptionAttribute) bool { return a.Name == name }) {
			return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: path + "." + name, Message: fmt.Sprintf("the engine has no option %q", name)}
		}
	}
	return nil
}
