//go:build unix

package cmdengine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/sbxhost/sbxhost/shared"
)

// admitOptions refuses names that the schema lacks: decoders of Go pass over
// them. Types and values are the engine's.
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
